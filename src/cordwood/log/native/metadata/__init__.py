"""The folder's metadata: which plogs make up which log, kept in a stream of its own."""

"""The folder engine as a connection sees it: the only part of it that knows event loops."""

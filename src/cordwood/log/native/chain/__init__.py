"""The chain of plogs that make up a log, and the records that change it. Imports `plog` only."""

"""Cordwood's own log engine: a folder with one writing process and readers alongside it.

`api` is the engine as a connection sees it, and the only part that knows event loops. `folder` is one folder: its
writer, its readers, the process that holds it. `metadata` keeps the chains of all logs, `stream` writes and reads one
log, `chain` names its plogs, `plog` is one file, `coordinator` keeps the state that outlives every process. `env` has
the disk, the clock and the workers that all of them are given. Each imports only those after it.
"""

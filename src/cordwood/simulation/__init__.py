"""Simulated parts that fail more often than real ones, always in the same way for a seed, for tests.

`disk` replaces the machine's disk, `storage` holds its files, and `power` decides how much survives a power cut.
`workers`, `clock` and `coordinator` are the rest of the environment of the folder engine. `folder` runs that engine on
all of them, and compares its data with the `ledger` of its promises.

Three engines serve the tests of the layers above: `folder_engine` is a connection to a simulated folder, `memory` keeps
logs in memory, and `faulty_log` makes the appends of any engine go wrong.

May import everything up to `cordwood.client` and `cordwood.wal`; nothing of them imports it.
"""

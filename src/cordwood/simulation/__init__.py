"""Simulated parts that fail more often than real ones, always in the same way for a seed: the engine's tests use them.

`disk` replaces the machine's disk, `storage` holds its files, and `power` decides how much survives a power cut.
`workers`, `clock` and `coordinator` are the rest of the engine's environment. `folder` runs the engine on all of them,
and compares its data with the `ledger` of its promises.

May import all of `cordwood.log.native`; nothing of the engine imports it.
"""

"""A world that is worse than the real one, and always the same for a seed: what the engine is tested against.

`disk` stands in for the machine's disk, `storage` is what is on it, `power` decides what a power cut leaves; `workers`,
`clock` and `coordinator` are the rest of what the engine is given. `folder` runs the engine on all of them, and holds
what it shows against the `ledger` of what it promised.

May import all of `cordwood.log.native`; nothing of the engine imports it.
"""

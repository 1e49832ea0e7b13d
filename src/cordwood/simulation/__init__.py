"""A world that is worse than the real one, and always the same for a seed: what the engine is tested against.

`disk` stands in for the machine's disk, `storage` is what is on it, `power` decides what a power cut leaves.

May import `cordwood.log.native.world`, whose interfaces it implements; nothing that ships imports it.
"""

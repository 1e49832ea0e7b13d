"""The environment of the engine: the disk, the clock and the workers that it is given.

Everything above this package reaches files, time and threads through these interfaces only. So the simulation can
replace them, with a disk that loses unsynced writes and a clock that stops.

Imports the standard library, `errors` and `locks`; nothing else of Cordwood.
"""

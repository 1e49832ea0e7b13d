"""What the engine is given from outside: the disk and the clock.

Everything above this package reaches files and time through these interfaces only, so that the simulation can
put its own in their place: a disk that loses what was not synced, a clock that stands still.

May import the standard library alone; nothing else of Cordwood.
"""

"""The age of a batch: a store with write times takes none that is too old (R24)."""

import time


def boot_seconds() -> float:
    """A clock that continues while the machine sleeps or the process is stopped.

    >>> boot_seconds() <= boot_seconds()
    True
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)

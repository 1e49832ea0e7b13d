"""Waiting for processes that are not our children."""

import os
import select


def gone(pid: int) -> None:
    """Return when the process has ended; fail if it does not."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 30)[0], f"{pid} is still there"
    finally:
        os.close(handle)

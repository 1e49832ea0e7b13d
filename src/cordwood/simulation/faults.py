"""The faults of the simulated disk: errors that a test asked for, and the loss of power."""

import errno
import os
from collections import deque
from dataclasses import dataclass
from typing import Literal, NoReturn

from cordwood.simulation.power import PowerCut

Operation = Literal[
    "create",
    "remove",
    "replace",
    "make_folder",
    "sync_folder",
    "write",
    "sync",
    "allocate",
    "truncate",
    "read",
    "coordinator",
]

_HISTORY_MAX = 10_000


@dataclass(slots=True)
class Fault:
    """An error that waits for its operation: the first `after` pass, the next `times` fail."""

    operation: Operation
    name_contains: str = ""
    error: int = errno.EIO
    times: int = 1
    after: int = 0
    # The bytes of a failing write that still reach the file.
    written: int = 0

    def strikes(self, operation: Operation, name: str) -> bool:
        if operation != self.operation or self.name_contains not in name:
            return False
        if self.after:
            self.after -= 1
            return False
        if not self.times:
            return False
        self.times -= 1
        return True


class Faults:
    """Counts the operations of one disk and stops the one that is due. The disk's lock is held around it."""

    def __init__(self) -> None:
        self.operations = 0
        self.history: deque[str] = deque(maxlen=_HISTORY_MAX)
        self.waiting: list[Fault] = []
        self.crash_at: int | None = None
        self.crash_written: int | None = None

    def check_power(self) -> None:
        """Raise PowerCut in the operation in which the power fails, and in all later ones.

        A change calls it before it begins, and again once it is under way.
        """
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise PowerCut(f"the power failed at operation {self.crash_at}")

    def count(self, operation: Operation, name: str, detail: str = "") -> Fault | None:
        """Record an operation that begins, and return the fault that it meets."""
        self.operations += 1
        self.history.append(f"{self.operations} {operation} {name}{detail}")
        return self.meet(operation, name)

    def meet(self, operation: Operation, name: str) -> Fault | None:
        return next((fault for fault in self.waiting if fault.strikes(operation, name)), None)

    def begin(self, operation: Operation, name: str, detail: str = "") -> None:
        """Record an operation that begins, and raise the error it meets."""
        fault = self.count(operation, name, detail)
        if fault is not None:
            self.stop(fault.error, name)

    def stop(self, error: int, name: str) -> NoReturn:
        # Without power, no caller gets an error.
        self.check_power()
        raise os_error(error, name)


def os_error(error: int, name: str) -> OSError:
    return OSError(error, os.strerror(error), name)

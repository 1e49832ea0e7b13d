"""Writes under way, in any format: sequence numbers, bounds, and callers that wait."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from cordwood.errors import CordwoodError, Fenced, Timeout, Trimmed, Unavailable, reason_of
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.wal.formats.applied_log import AppliedLog
from cordwood.wal.formats.interface import WriteUnderWay

PENDING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Writes that are not acked yet; more wait in their callers. Less than the queue of a log takes: an append that waited
there might be overtaken."""

_LOGGER = logging.getLogger("cordwood.wal")


class PendingWrites:
    """The part that the writers of all formats share."""

    def __init__(self, data: AppliedLog, timeout: float) -> None:
        self.fenced: Fenced | None = None
        self.closed = False
        self._data = data
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._next: dict[int, int] = {}
        self._pending_bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._line: deque[asyncio.Future[None]] = deque()

    def check(self) -> None:
        """Raise the error that every write would raise."""
        if self.fenced is not None:
            raise copy_for_caller(self.fenced, "not_written")
        where = f"region {self._data.region} in {self._data.log.name}"
        if self.closed:
            raise Unavailable(f"{where} is closed: open it again", outcome="not_written", reason="closed")
        if asyncio.get_running_loop() is not self._loop:
            raise Unavailable(
                f"{where} was opened in another event loop: write there, or use cordwood.sync",
                outcome="not_written",
                reason="other-loop",
            )

    def fence(self, error: Fenced) -> None:
        """Refuse all writes from now on; the error names the other owner."""
        if self.fenced is None:
            self.fenced = error
            _LOGGER.info("region %d in %s is fenced: %s", self._data.region, self._data.log.name, error)

    @property
    def full(self) -> bool:
        """Whether a write has to wait for room: also where there is some, and others wait for it already."""
        return self._pending_bytes >= PENDING_BYTES_MAX or bool(self._line)

    async def room(self, timeout: float | None) -> None:
        """Backpressure: wait until there is room for one more write, in the order of the calls.

        The caller puts its write before it awaits anything else, since the next caller runs right after it.
        """
        turn: asyncio.Future[None] = self._loop.create_future()
        self._line.append(turn)
        self._call_next()
        try:
            async with deadline(self._timeout if timeout is None else timeout, self._no_room):
                await turn
                while self._pending_bytes >= PENDING_BYTES_MAX:
                    await self._progress()
        finally:
            self._line.remove(turn)
            self._call_next()
        self.check()

    def _no_room(self) -> Timeout:
        return Timeout(
            f"region {self._data.region}: {self._pending_bytes} bytes of writes were still under way when the time "
            "ran out: write again, with more time",
            outcome="not_written",
        )

    def has_given(self, table: int) -> bool:
        """Whether a write of the table, in this opening, has got a number."""
        return table in self._next

    def last_given(self, table: int) -> int:
        """The last sequence number that a write of the table has, also of one that is under way."""
        return (self._next.get(table) or self._data.state.next_sequence(table)) - 1

    def _answer(self, write: WriteUnderWay, size: int, error: CordwoodError | None) -> None:
        """Complete the write for its caller."""
        self._pending_bytes -= size
        if not write.future.done():  # else its caller was cancelled, or its time was over
            if error is None:
                write.future.set_result(range(write.first, write.first + write.count))
            else:
                write.future.set_exception(error)
        self._wake()

    def _call_next(self) -> None:
        """Only the first in the line looks for room: to wake all of them for each write would cost more than it."""
        if self._line and not self._line[0].done():
            self._line[0].set_result(None)

    async def _progress(self) -> None:
        """Until something is decided."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _wake(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def _why_not_found(self, error: BaseException) -> CordwoodError:
        """The error for writes whose outcome could not be found out."""
        where = f"region {self._data.region} in {self._data.log.name}"
        found: CordwoodError
        if isinstance(error, Trimmed):
            # An owner trims only records that it has seen. The trimmed ones may be writes of this owner that count.
            found = Fenced(
                f"{where} was trimmed before {error.start} by another owner, beyond what this one has seen: open it"
                " again to take it back",
                outcome="unknown",
            )
        elif isinstance(error, CordwoodError):
            return error
        elif isinstance(error, TimeoutError):
            found = Timeout(f"{where}: reading the log after a failed append took too long: write again")
        else:
            found = Unavailable(
                f"{where}: reading the log after a failed append failed: {error!r}", reason=reason_of(error)
            )
        found.__cause__ = error
        return found


def why_broken_off(task: asyncio.Task[None]) -> BaseException | None:
    """The exception that ended the task early, CancelledError included; None if it finished."""
    return asyncio.CancelledError() if task.cancelled() else task.exception()

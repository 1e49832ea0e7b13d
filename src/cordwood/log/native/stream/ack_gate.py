"""Decides when an append may be acked: pure bookkeeping, no disk.

An append is acked when it is synced *and* every rollover up to its plog is recorded. Syncs complete in offset order;
the metadata stream records rollovers at any later time. Acks leave in offset order, whatever completes first (R8).
"""

from collections import deque
from typing import NamedTuple

from cordwood.log.native.chain.durable import Durable

from .append import Append


class Synced(NamedTuple):
    """Appends that one sync made durable, in the plog of rollover number `rollover`."""

    rollover: int
    durable: Durable
    appends: list[Append]


class AckGate:
    """Holds synced appends until the rollovers up to their plog are recorded."""

    def __init__(self) -> None:
        self._held: deque[Synced] = deque()
        self._recorded = 0

    def hold(self, group: Synced) -> list[Synced]:
        """Returns the groups that may be acked now, in order."""
        self._held.append(group)
        return self._release()

    def open_through(self, rollover: int) -> list[Synced]:
        """Rollovers are recorded in order: number n implies all before it."""
        self._recorded = max(self._recorded, rollover)
        return self._release()

    def waiting(self) -> list[Append]:
        """May be called at any time, concurrently with the other two."""
        return [append for group in tuple(self._held) for append in group.appends]

    def _release(self) -> list[Synced]:
        released = []
        while self._held and self._held[0].rollover <= self._recorded:
            released.append(self._held.popleft())
        return released

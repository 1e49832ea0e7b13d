"""Snapshots of journals: they belong to a life, and die with it (R44)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cordwood.errors import Conflict, InvalidInput, Outcome
from cordwood.store import SnapshotGuard, SnapshotRow, boot_seconds

from .fold import exists, seq_nr_of
from .look import Key, Look, Looks
from .topic import OURS, JournalTopic


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an entity after one of its events, as its application wrote it.

    >>> Snapshot(4, b"state", datetime(2026, 1, 1, tzinfo=UTC)).seq_nr
    4
    """

    seq_nr: int
    payload: bytes
    timestamp: datetime


class Snapshots:
    """The snapshots of one topic."""

    def __init__(self, topic: JournalTopic, looks: Looks) -> None:
        self._topic = topic
        self._looks = looks

    def _check_lives(self, outcome: Outcome | None = None) -> None:
        """R40: the Scala library's replicator gives a life another name each time, so that none can be kept."""
        if self._topic.binding.replicator != OURS:
            raise InvalidInput(
                f"topic {self._topic.name!r} is replicated by the Scala library's replicator, whose journals have no"
                " snapshots: take it over with catch_up(adopt=True)",
                outcome=outcome,
            )

    async def save(self, key: Key, seq_nr: int, payload: bytes, newest: int) -> None:
        self._check_lives("not_written")
        began = boot_seconds()
        look = await self._looks.before_write(key)
        look.check_open(self._topic.name, key.id, "not_written")
        state = look.state
        if state is None or not exists(state) or seq_nr > seq_nr_of(state) or state.life is None:
            raise InvalidInput(
                f"a snapshot of journal {key.id!r} at {seq_nr}: the journal is at {seq_nr_of(state)}",
                outcome="not_written",
            )
        row = SnapshotRow(state.life, seq_nr, self._topic.now_ms(), payload)
        guard = SnapshotGuard(key.partition, look.fence, began)
        if not await self._topic.store.save_snapshot(self._topic.name, key.id, row, newest, guard):
            raise Conflict(
                f"journal {key.id!r} of {self._topic.name!r} was purged while its snapshot was saved: read it anew",
                outcome="not_written",
            )

    async def load(self, key: Key) -> Snapshot | None:
        self._check_lives()
        _, snapshot = await self.at_fence(key)
        return snapshot

    async def at_fence(self, key: Key) -> tuple[Look, Snapshot | None]:
        """A look as of a read fence, and the newest snapshot of the life that it saw, at or below its seq_nr.

        Events after the snapshot are deleted only if their caller deleted them without a newer snapshot: one that was
        saved while the look was taken is found by another look.
        """
        look, rows = await asyncio.gather(self._looks.at_fence(key), self._rows(key))
        snapshot = _newest(rows, look)
        while not _is_whole(look, rows, snapshot):
            before = await self._rows(key)
            look = await self._looks.at_fence(key)
            rows = await self._rows(key)
            snapshot = _newest(rows, look)
            if rows == before:
                break  # these are the snapshots as of the read fence
        look.check_open(self._topic.name, key.id)
        return look, snapshot

    async def _rows(self, key: Key) -> Sequence[SnapshotRow]:
        return await self._topic.store.snapshots(self._topic.name, key.id)

    async def delete(self, key: Key, through: int) -> None:
        self._check_lives("not_written")
        began = boot_seconds()
        look = await self._looks.before_write(key)
        state = look.state
        if state is not None and state.life is not None:
            guard = SnapshotGuard(key.partition, look.fence, began)
            await self._topic.store.delete_snapshots(self._topic.name, key.id, state.life, through, guard)


def _newest(rows: Sequence[SnapshotRow], look: Look) -> Snapshot | None:
    state = look.state
    if state is None or not exists(state):
        return None
    for row in rows:
        if row.life == state.life and row.seq_nr <= seq_nr_of(state):
            return Snapshot(row.seq_nr, row.payload, datetime.fromtimestamp(row.timestamp / 1000, UTC))
    return None


def _is_whole(look: Look, rows: Sequence[SnapshotRow], snapshot: Snapshot | None) -> bool:
    """Whether all events after the snapshot are there, without a look at how snapshots changed meanwhile."""
    deleted = 0 if look.state is None else look.state.delete_to or 0
    return not rows and not deleted if snapshot is None else snapshot.seq_nr >= deleted

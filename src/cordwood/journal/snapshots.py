"""Snapshots of journals: they belong to a life, and die with it (R44)."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cordwood.errors import Conflict, InvalidInput
from cordwood.store import SnapshotGuard, SnapshotRow

from .fold import exists, seq_nr_of
from .look import Key, Look, Looks
from .topic import JournalTopic


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

    async def save(self, key: Key, seq_nr: int, payload: bytes, newest: int) -> None:
        look = await self._looks.before_write(key)
        look.check_open(self._topic.name, key.id, "not_written")
        state = look.state
        if state is None or not exists(state) or seq_nr > seq_nr_of(state) or state.life is None:
            raise InvalidInput(
                f"a snapshot of journal {key.id!r} at {seq_nr}: the journal is at {seq_nr_of(state)}",
                outcome="not_written",
            )
        row = SnapshotRow(state.life, seq_nr, self._topic.now_ms(), payload)
        guard = SnapshotGuard(key.partition, look.fence)
        if not await self._topic.store.save_snapshot(self._topic.name, key.id, row, newest, guard):
            raise Conflict(
                f"journal {key.id!r} of {self._topic.name!r} was purged while its snapshot was saved: read it anew",
                outcome="not_written",
            )

    async def load(self, key: Key) -> Snapshot | None:
        return await self.of(key, await self._looks.at_fence(key))

    async def of(self, key: Key, look: Look) -> Snapshot | None:
        """The newest snapshot of the life that this look saw, at or below its seq_nr."""
        look.check_open(self._topic.name, key.id)
        state = look.state
        if state is None or not exists(state):
            return None
        for row in await self._topic.store.snapshots(self._topic.name, key.id):
            if row.life == state.life and row.seq_nr <= seq_nr_of(state):
                when = datetime.fromtimestamp(row.timestamp / 1000, UTC)
                return Snapshot(row.seq_nr, row.payload, when)
        return None

    async def delete(self, key: Key, through: int) -> None:
        look = await self._looks.before_write(key)
        state = look.state
        if state is not None and state.life is not None:
            guard = SnapshotGuard(key.partition, look.fence)
            await self._topic.store.delete_snapshots(self._topic.name, key.id, state.life, through, guard)

"""The events of the records that the store did not have when the job was planned: one fold per key (R27).

Spark brings the records of a key together, in the order of the log. A task looks the head rows of a batch of keys up at
once. The store may have got some of the records by then: their events are in its rows, at their places, and the fold
skips their actions. So each event comes once, whenever the replicator writes it.
"""

import pickle
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from cordwood.errors import Corrupt
from cordwood.journal.action import ACTION_HEADER, Append, Delete, Purge
from cordwood.journal.fold import KeyFold, KeyRecord, Poison, RowsOf, exists
from cordwood.journal.key import decode_id
from cordwood.journal.look import check_open, told_of
from cordwood.journal.reader import sound_rows, user_headers
from cordwood.journal.record_rows import event_rows
from cordwood.pipeline.places import StorePlace
from cordwood.records import StoredRecord
from cordwood.store import EventRow, EventStore, HeadRow

from .look import Planned
from .rows import EventBatches, error_batch
from .source import iterate

INPUT = ("key", "value", "partition", "offset", "timestamp", "headers")

VERDICT_SCHEMA = StructType(
    [
        StructField("verdict_id", StringType()),
        StructField("verdict_life", StringType()),
        StructField("deleted_through", LongType()),
        StructField("gone", BooleanType()),
    ]
)
_VERDICT_ARROW = pa.schema(
    [
        ("verdict_id", pa.string()),
        ("verdict_life", pa.string()),
        ("deleted_through", pa.int64()),
        ("gone", pa.bool_()),
    ]
)
_CHUNK_BYTES = 8 * 1024 * 1024
"""The records of a key that are folded at once: any split gives the same rows (R27)."""
_SPOOL_BYTES = 8 * 1024 * 1024
"""The events of a key that are held in memory until its last record is known; more are kept in a file."""
_RECORD_BYTES = 256


@dataclass(frozen=True)
class HeadFold:
    """What a task needs to fold the head of a topic."""

    store: StorePlace
    planned: Planned
    permissive: bool

    def events(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The events of the records, and a row with an error for each key that is closed as of the end."""
        return iterate(self._events(batches))

    def verdicts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the records make of the rows that the store had already: which life lives, and from which number on."""
        return iterate(self._verdicts(batches))

    async def _events(self, batches: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
        planned = self.planned
        out = EventBatches(planned.topic)
        async for key in self._keys(batches, _rows_of):
            error = key.error(planned.topic)
            if error is not None and not self.permissive:
                raise Corrupt(error)
            if error is not None:
                yield error_batch([(key.id, error)])
                continue
            for rows in key.events():
                for batch in out.add(key.id, rows):
                    yield batch
        for batch in out.rest():
            yield batch

    async def _verdicts(self, batches: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
        found: list[tuple[str, str | None, int, bool]] = []
        # A value that cannot be decoded closes its key: in FAILFAST the task that makes the events raises.
        known = batches if self.permissive else _of_changed_keys(batches)
        async for key in self._keys(known, _rows_of if self.permissive else _no_rows):
            error = key.error(self.planned.topic)
            if key.touched or error is not None:
                state = key.state
                gone = error is not None or state is None or not exists(state)
                found.append(
                    (key.id, None if state is None else state.life, 0 if state is None else state.delete_to or 0, gone)
                )
            key.close()
            if len(found) >= 1000:
                yield _verdict_batch(found)
                found = []
        if found:
            yield _verdict_batch(found)

    async def _keys(self, batches: Iterator[pa.RecordBatch], rows_of: Callable[[int], RowsOf]) -> "AsyncIterator[_Key]":
        """The keys of the batches, each with all its records folded."""
        async with await self.store.open() as store:
            key: _Key | None = None
            for batch in batches:
                records = _records(batch)
                ids = {id: partition for id, partition, _ in records if key is None or id != key.id}
                heads = await heads_after_pointers(store, self.planned, ids)
                for id, partition, record in records:
                    if key is None or key.id != id:
                        if key is not None:
                            await key.finish(store)
                            yield key
                        key = _Key(self.planned, id, partition, heads[id], rows_of(partition))
                    await key.add(record, store)
            if key is not None:
                await key.finish(store)
                yield key


class KnownHead(NamedTuple):
    """A head row, which has all records of its key up to a pointer that was read before it (R41)."""

    row: HeadRow | None
    pointer: int


async def heads_after_pointers(store: EventStore, planned: Planned, ids: dict[str, int]) -> dict[str, KnownHead]:
    """The head rows of these journals, by their partitions.

    A Purge that is replicated between the pointer and the row takes the row away, and nothing would say how far the
    store is. So a missing row counts only if the pointer is the same after it, or has passed the head.
    """
    found: dict[str, KnownHead] = {}
    while ids:
        before = await store.pointers(planned.topic)
        heads = await store.heads(planned.topic, list(ids))
        after = await store.pointers(planned.topic)
        for id, partition in ids.items():
            pointer = before.get(partition, -1)
            if id in heads or pointer == after.get(partition, -1) or pointer + 1 >= planned.ends[partition]:
                found[id] = KnownHead(heads.get(id), pointer)
        ids = {id: partition for id, partition in ids.items() if id not in found}
    return found


class _Key:
    """One key: its records are folded in chunks, and the events that may still live are kept."""

    def __init__(
        self,
        planned: Planned,
        id: str,
        partition: int,
        known: KnownHead,
        rows_of: RowsOf,
    ) -> None:
        head, self._applied = known
        self.id = id
        self.state = head
        self.touched = head is not None and head.closed is not None
        """Whether rows that the store had already may be gone."""
        self._planned = planned
        self._partition = partition
        self._pointer = planned.pointers[partition]
        self._end = planned.ends[partition]
        if head is not None and head.partition == partition:
            self._applied = max(self._applied, head.offset)
        self._stored = head if self._applied > self._pointer else None
        """The head row, if the store may have got events of the head."""
        self._first: int | None = None
        """The lowest number that an Append names whose events may be in rows which were written meanwhile."""
        self._rows_of = rows_of
        self._chunk: list[KeyRecord] = []
        self._chunk_bytes = 0
        self._spool = _Spool()

    async def add(self, record: KeyRecord, store: EventStore) -> None:
        """Take the next record."""
        told = record.told
        self.touched = self.touched or isinstance(told, (Delete, Purge, Poison))
        if record.offset <= self._applied:
            if isinstance(told, Append):
                self._first = told.first if self._first is None else min(self._first, told.first)
            return
        self._chunk.append(record)
        self._chunk_bytes += _RECORD_BYTES + len(record.value or b"")
        if self._chunk_bytes >= _CHUNK_BYTES:
            await self._fold(store)

    async def finish(self, store: EventStore) -> None:
        """All records have come."""
        await self._fold(store)

    async def _fold(self, store: EventStore) -> None:
        if self._stored is not None:
            await self._take_stored(self._stored, store)
            self._stored = None
        fold = KeyFold(self.id, self.state, self._planned.facts(self._partition), self._rows_of)
        for record in self._chunk:
            fold.add(record)
        self._chunk, self._chunk_bytes = [], 0
        changes = fold.changes()
        if changes is None:
            return
        if changes.purge is not None:
            self._spool.clear()
        self.state = changes.head
        self.touched = self.touched or (changes.head is not None and changes.head.closed is not None)
        self._spool.add(changes.rows)

    async def _take_stored(self, head: HeadRow, store: EventStore) -> None:
        """The rows of records that were replicated after the job was planned."""
        start: int | None = max(self._first or 1, (head.delete_to or 0) + 1)
        while self._first is not None and start is not None and start <= head.seq_nr:
            page = await store.events(self._planned.topic, self.id, head, start, head.seq_nr + 1)
            rows = sound_rows(page.rows, head.life, start)
            self._spool.add([row for row in rows if self._is_of_head(row)])
            start = page.next

    def _is_of_head(self, row: EventRow) -> bool:
        return row.partition == self._partition and self._pointer < row.offset < self._end

    def error(self, topic: str) -> str | None:
        """Why the key is closed as of the end; None if it is open."""
        state = self.state
        if state is None or state.closed is None or state.closed.offset >= self._end:
            return None
        try:
            check_open(state, topic, self.id)
        except Corrupt as error:
            self.close()
            return str(error)
        return None

    def events(self) -> Iterator[list[EventRow]]:
        """The events that live as of the end."""
        deleted = 0 if self.state is None else self.state.delete_to or 0
        for rows in self._spool.parts():
            yield [row for row in rows if row.seq_nr > deleted]
        self.close()

    def close(self) -> None:
        """Give up the events that were not asked for."""
        self._spool.clear()


@dataclass
class _Spool:
    """Rows of one key: in memory, and in a file beyond a limit."""

    rows: list[EventRow] = field(default_factory=list)
    size: int = 0
    file: IO[bytes] | None = None

    def add(self, rows: Sequence[EventRow]) -> None:
        self.rows.extend(rows)
        self.size += sum(_RECORD_BYTES + len(row.payload_txt or row.payload_bin or "") for row in rows)
        if self.size > _SPOOL_BYTES:
            if self.file is None:
                self.file = tempfile.TemporaryFile(prefix="cordwood-events-")  # noqa: SIM115  `clear` closes it
            pickle.dump(self.rows, self.file, pickle.HIGHEST_PROTOCOL)
            self.rows, self.size = [], 0

    def parts(self) -> Iterator[list[EventRow]]:
        if self.file is not None:
            self.file.seek(0)
            with suppress(EOFError):
                while True:
                    yield pickle.load(self.file)
        yield self.rows

    def clear(self) -> None:
        self.rows, self.size = [], 0
        if self.file is not None:
            self.file.close()
            self.file = None


def _of_changed_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of keys that may have more than Appends and Marks: most keys have nothing else, and cost nothing.

    The last key of a batch may continue in the next one, so it is always among them.
    """
    last: pa.Scalar | None = None
    for batch in batches:
        keys, headers = batch.column("key"), batch.column("headers")
        names, values = headers.flatten().flatten()
        ours = pc.equal(names, ACTION_HEADER)
        parents, actions = pc.list_parent_indices(headers).filter(ours), values.filter(ours)
        plain = pc.or_(pc.starts_with(actions, pattern='{"append"'), pc.starts_with(actions, pattern='{"mark"'))
        changed = keys.take(parents.filter(pc.invert(pc.fill_null(plain, False))))
        ends = [keys[len(keys) - 1], *([] if last is None else [last])]
        wanted = pa.concat_arrays([changed, pa.array([end.as_py() for end in ends], changed.type)])
        last = keys[len(keys) - 1]
        yield batch.filter(pc.is_in(keys, value_set=wanted))


def _records(batch: pa.RecordBatch) -> list[tuple[str, int, KeyRecord]]:
    """The id, the partition and the action of each record that has one, in the order of the batch."""
    keys, values, partitions, offsets = (
        batch.column(name).to_pylist() for name in ("key", "value", "partition", "offset")
    )
    stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    found: list[tuple[str, int, KeyRecord]] = []
    for key, value, partition, offset, stamp_us, pairs in zip(
        keys, values, partitions, offsets, stamps, batch.column("headers").to_pylist(), strict=True
    ):
        stamp = stamp_us // 1000
        id = decode_id(key) if key else None
        if id is None or pairs is None:
            continue
        headers = [(pair["key"], pair["value"]) for pair in pairs]
        told = told_of(StoredRecord(value, key, tuple(headers), stamp, offset))
        if told is not None:
            found.append((id, partition, KeyRecord(offset, stamp, told, value, user_headers(headers))))
    return found


def _rows_of(partition: int) -> RowsOf:
    def rows(record: KeyRecord, append: Append, life: str | None, first: int) -> tuple[list[EventRow], int | None]:
        return event_rows(
            append, record.value or b"", record.headers, partition, record.offset, record.timestamp, life, first - 1
        )

    return rows


def _no_rows(partition: int) -> RowsOf:
    return lambda record, append, life, first: ((), None)


def _verdict_batch(found: Sequence[tuple[str, str | None, int, bool]]) -> pa.RecordBatch:
    columns = zip(*found, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _VERDICT_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_VERDICT_ARROW)

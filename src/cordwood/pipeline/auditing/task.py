"""The comparison in a worker: the rows and records of a key come together, in the order head, rows, records."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from cordwood.journal.fold import KeyRecord, Topic
from cordwood.journal.key import decode_id
from cordwood.journal.look import told_of
from cordwood.journal.reader import user_headers
from cordwood.log.partitioning import partition_of
from cordwood.pipeline.places import StorePlace
from cordwood.pipeline.scanning.source import iterate
from cordwood.records import StoredRecord
from cordwood.store import EventStore, HeadRow, KeyChanges, PartitionChanges

from .findings import Finding
from .key import Expected, Letter, Stored, compare, stored
from .store_side import HEAD, RECORD, ROW, decode_head, decode_row

FINDING_SCHEMA = StructType(
    [
        StructField("what", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("key", StringType()),
        StructField("numbers", StringType()),
        StructField("whole", BooleanType()),
    ]
)
_ARROW = pa.schema(
    [
        ("what", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.string()),
        ("numbers", pa.string()),
        ("whole", pa.bool_()),
    ]
)
_CHUNK_BYTES = 8 * 1024 * 1024
_RECORD_BYTES = 256
_TRIES = 20
_PAUSE_SECONDS = 0.05
_FINDINGS = 1000


class AuditPlan(msgspec.Struct, frozen=True):
    """A topic and its store, as an audit sees them when a pass begins."""

    topic: str
    topic_id: str
    segment_size: int
    pointers: Mapping[int, int]
    """Without those that the store does not have."""
    ends: Mapping[int, int]
    whole: Collection[int]
    """The partitions whose whole history is in the log or the archive."""
    letters: Sequence[Letter]
    lives: bool
    """Whether our own replicator serves the topic: then lives have names."""


class Kept(NamedTuple):
    """What the store has of a key."""

    head: HeadRow | None
    rows: Sequence[Stored]
    applied: int
    """The store has all records up to this offset."""
    has_pointer: bool
    changes: bool = False
    """It changed again and again while it was read."""


@dataclass(frozen=True)
class Comparing:
    """What a task needs. `again`: it reads each key anew, as of one moment. `fix`: it rewrites keys."""

    plan: AuditPlan
    store: StorePlace
    partitions: int
    again: bool = False
    fix: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iterate(self._findings(batches))

    async def _findings(self, batches: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
        found: list[Finding] = []
        async with await self.store.open(read_only=not self.fix) as store:
            letters: dict[str, list[Letter]] = {}
            for letter in self.plan.letters:
                letters.setdefault(letter.id, []).append(letter)
            key: _Key | None = None
            for batch in batches:
                columns = [batch.column(name).to_pylist() for name in ("key", "side", "at", "value", "headers")]
                stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
                for raw, side, at, value, headers, stamp in zip(*columns, stamps, strict=True):
                    if key is None or key.raw != raw:
                        if key is not None:
                            found += await key.finish(store)
                        key = _Key(self, raw, letters)
                        await key.begin(store, at if side == HEAD else 0)
                    key.add(side, at, value, headers, stamp)
                if len(found) >= _FINDINGS:
                    yield _batch(found)
                    found = []
            if key is not None:
                found += await key.finish(store)
        if found:
            yield _batch(found)


@dataclass
class _Key:
    job: Comparing
    raw: bytes
    all_letters: Mapping[str, list[Letter]]
    id: str | None = None
    partition: int = 0
    kept: Kept | None = None
    head: HeadRow | None = None
    rows: list[Stored] = field(default_factory=list)
    expected: Expected | None = None
    chunk: list[KeyRecord] = field(default_factory=list)
    chunk_bytes: int = 0

    async def begin(self, store: EventStore, last: int) -> None:
        job, plan = self.job, self.job.plan
        self.id = decode_id(self.raw)
        self.partition = partition_of(self.raw, job.partitions)
        if self.id is not None and job.again:
            self.kept = await _read(store, plan.topic, self.id, self.partition, last)
        if self.partition in plan.whole and self.id is not None:
            topic = Topic(plan.topic_id, self.partition, plan.segment_size)
            self.expected = Expected(self.id, topic, events={} if job.fix else None)

    def add(
        self, side: int, at: int, value: bytes | None, headers: list[dict[str, object]] | None, stamp_us: int
    ) -> None:
        if self.id is None:
            return
        if side == RECORD:
            self._add_record(at, value, headers, stamp_us // 1000)
        elif side == HEAD and self.kept is None and value:
            self.head = decode_head(value)
        elif side == ROW and self.kept is None and value:
            self.rows.append(decode_row(value))

    def _add_record(
        self, offset: int, value: bytes | None, headers: list[dict[str, object]] | None, stamp: int
    ) -> None:
        if self.expected is None or offset > self._applied():
            return
        pairs = tuple((pair["key"], pair["value"]) for pair in headers or ())
        told = told_of(StoredRecord(value, self.raw, pairs, stamp, offset))  # type: ignore[arg-type]
        if told is None:
            return
        self.chunk.append(KeyRecord(offset, stamp, told, value, user_headers(pairs)))  # type: ignore[arg-type]
        self.chunk_bytes += _RECORD_BYTES + len(value or b"")
        if self.chunk_bytes >= _CHUNK_BYTES:
            self._fold()

    def _applied(self) -> int:
        """The last offset that the store has, as far as it was seen: the head row of a key may be ahead."""
        if self.kept is not None:
            return self.kept.applied
        head = self.head
        pointer = self.job.plan.pointers.get(self.partition, -1)
        return pointer if head is None or head.partition != self.partition else max(pointer, head.offset)

    def _fold(self) -> None:
        if self.expected is not None:
            self.expected.add(self.chunk)
        self.chunk, self.chunk_bytes = [], 0

    async def finish(self, store: EventStore) -> list[Finding]:
        id, plan = self.id, self.job.plan
        if id is None:
            return []
        self._fold()
        applied = self._applied()
        letters = [letter for letter in self.all_letters.get(id, ()) if letter.partition == self.partition]
        if self.expected is not None:
            self.expected.settle({letter.offset for letter in letters if letter.skipped})
        if self.kept is None:
            head = self.head
            rows = [row for row in self.rows if row.partition != self.partition or row.offset <= applied]
            has_pointer = self.partition in plan.pointers
        else:
            head, rows, has_pointer = self.kept.head, list(self.kept.rows), self.kept.has_pointer
        if applied >= plan.ends[self.partition] or (self.kept is not None and self.kept.changes):
            # The store has records that this pass does not: the next look has to decide.
            return [Finding("changed meanwhile", self.partition, applied, id)]
        found = compare(
            self.expected,
            id,
            self.partition,
            head,
            rows,
            [letter for letter in letters if letter.offset <= applied],
            has_pointer=has_pointer,
            lives=plan.lives,
        )
        if self.job.fix and self.expected is not None and any(_fixable(each) for each in found):
            await self._rewrite(store, applied)
        return found

    async def _rewrite(self, store: EventStore, applied: int) -> None:
        """Write the key as the log says it. The store refuses if its pointer has moved since it was read (R24)."""
        expected, plan = self.expected, self.job.plan
        assert expected is not None
        assert expected.events is not None
        assert self.id is not None
        rows = [expected.events[number] for number in sorted(expected.rows)]
        # A purge before the first offset takes rows and head away, and leaves snapshots and dead letters.
        changes = KeyChanges(self.id, expected.state, rows, purge=-1, reached=max(expected.rows, default=0))
        await store.write(PartitionChanges(plan.topic, self.partition, applied, applied, [changes]))


def _fixable(finding: Finding) -> bool:
    return bool(finding.row("")[-1])


async def _read(store: EventStore, topic: str, id: str, partition: int, number: int) -> Kept:
    """The head row and the event rows of a key as of one moment: the row and the pointer are the same after them.

    Rows may be above the head row's number: up to `number`, which the first pass has seen.
    """
    last: Kept | None = None
    for _ in range(_TRIES):
        pointer = (await store.pointers(topic)).get(partition)
        head = (await store.heads(topic, [id])).get(id)
        wide = head or HeadRow(partition, -1, 10_000, number, 0, 0)
        stop = max(wide.seq_nr, number) + 1
        rows: list[Stored] = []
        start: int | None = 1
        while start is not None and start < stop:
            page = await store.events(topic, id, wide, start, stop)
            rows += [stored(row) for row in page.rows]
            start = page.next
        last = Kept(head, rows, -1 if pointer is None else pointer, pointer is not None)
        same = (await store.heads(topic, [id])).get(id) == head
        if same and (await store.pointers(topic)).get(partition) == pointer:
            return last
        await asyncio.sleep(_PAUSE_SECONDS)
    assert last is not None
    return last._replace(changes=True)


def _batch(found: Sequence[Finding]) -> pa.RecordBatch:
    columns = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )

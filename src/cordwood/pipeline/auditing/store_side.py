"""The store's side of an audit: head rows and event rows, in the columns of the log's records, for one shuffle."""

from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import StorePlace, places_of
from cordwood.pipeline.scanning.source import iterate
from cordwood.store import HeadRow, ScanPart

from .key import Stored, stored

HEAD, ROW, RECORD = range(3)
"""The side of a row: they come in this order for each key."""

SIDE_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("side", IntegerType()),
        StructField("at", LongType()),
        StructField("value", BinaryType()),
    ]
)
_ARROW = pa.schema([("key", pa.binary()), ("side", pa.int32()), ("at", pa.int64()), ("value", pa.binary())])
_encode = msgspec.msgpack.Encoder().encode
decode_head = msgspec.msgpack.Decoder(HeadRow).decode
decode_row = msgspec.msgpack.Decoder(Stored).decode


class AuditStoreSource(DataSource):
    """All head rows and event rows of a topic."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood-audit-store"

    def schema(self) -> StructType:
        """A key, the side, a number, and what is compared."""
        return SIDE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """The object that plans the scan, and that its tasks run."""
        given, _, store = places_of(self.options, ("topic", "parts"))
        assert store is not None
        return _Reader(store, given["topic"], int(given["parts"]))


class _Reader(DataSourceReader):
    def __init__(self, store: StorePlace, topic: str, count: int) -> None:
        self._store = store
        self._topic = topic
        self._count = count

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in run(self._parts())]

    async def _parts(self) -> list[ScanPart]:
        async with await self._store.open() as store:
            return await store.parts(self._topic, self._count)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(()) if partition.value is None else iterate(self._batches(partition.value))

    async def _batches(self, part: ScanPart) -> AsyncIterator[pa.RecordBatch]:
        async with await self._store.open() as store:
            async for heads in store.scan_heads(self._topic, part):
                yield side_batch([(id.encode(), HEAD, 0, _encode(head)) for id, head in heads])
            async for page in store.scan_events(self._topic, part):
                yield side_batch([(id.encode(), ROW, row.seq_nr, _encode(stored(row))) for id, row in page])


def side_batch(rows: Sequence[tuple[bytes, int, int, bytes]]) -> pa.RecordBatch:
    """Rows of the store's side."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )

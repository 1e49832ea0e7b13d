"""A stored batch: records that were read together."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, overload

from cordwood.records.batch import Batch, checked_timestamps
from cordwood.records.column import BinaryColumn, checked_length
from cordwood.records.headers import HeaderColumn
from cordwood.records.layout import FLAG_TIMESTAMPS
from cordwood.records.record import StoredRecord

_new = object.__new__
_STORED_RECORD: Any = partial(tuple.__new__, StoredRecord)


class StoredBatch(Batch):
    """Records that were read from a log: a `Batch` with `offsets`, whose timestamps are always known.

    Its columns are views of the buffer that was read. The buffer stays alive as long as the batch, a slice of it or one
    of its columns does. To keep a few records of many, keep `bytes` of them: `batch.values[i]` is a copy.

    It can be appended to another log as it is, and then keeps its timestamps.

    >>> stored = StoredBatch.from_columns(range(5, 7), BinaryColumn.of([b"a", b"b"]), timestamps=9)
    >>> stored.offsets, [record.offset for record in stored], stored.timestamps[1]
    (range(5, 7), [5, 6], 9)
    """

    __slots__ = ("offsets", "partition")

    offsets: Sequence[int]
    """The place of each record in its log: a `range` when dense, else an increasing sequence of int."""
    partition: int | None
    """The partition of its topic; None if it was not read from a log."""

    @staticmethod
    def from_columns(
        offsets: Sequence[int],
        values: BinaryColumn,
        *,
        timestamps: Sequence[int] | int,
        keys: BinaryColumn | None = None,
        headers: HeaderColumn | None = None,
    ) -> StoredBatch:
        """A stored batch of columns that a log has read; `timestamps` is one for all, or one for each record.

        >>> StoredBatch.from_columns([3, 7], BinaryColumn.of([b"a", b"b"]), timestamps=[1, 2])[1]
        StoredRecord(value=b'b', key=None, headers=(), timestamp=2, offset=7)
        """
        checked_length("offsets", len(offsets), len(values))
        given = None if isinstance(timestamps, int) else timestamps
        batch = Batch.of(values, keys=keys, headers=headers, timestamps=given)
        stored: StoredBatch = _new(StoredBatch)
        for name in Batch.__slots__:
            setattr(stored, name, getattr(batch, name))
        if isinstance(timestamps, int):
            stored._timestamps = checked_timestamps([timestamps], 1)[0]
        stored.offsets = offsets
        stored.partition = None
        return stored

    @staticmethod
    def from_rows(
        offsets: Sequence[int],
        values: list[bytes | None],
        *,
        timestamps: Iterable[int],
        keys: list[bytes | None] | None = None,
        headers: HeaderColumn | None = None,
    ) -> StoredBatch:
        """A stored batch of rows that a log has read. The caller gives up the lists, and their types are not checked.

        >>> StoredBatch.from_rows([3, 7], [b"a", b"b"], timestamps=[1, 2])[1]
        StoredRecord(value=b'b', key=None, headers=(), timestamp=2, offset=7)
        """
        stored: StoredBatch = _new(StoredBatch)
        stored._take_rows(values, keys, headers, timestamps)
        stored.offsets = offsets
        stored.partition = None
        return stored

    @property
    def timestamps(self) -> memoryview:
        """The timestamps, int64 in ms UTC.

        >>> StoredBatch.from_columns(range(1), BinaryColumn.of([b"a"]), timestamps=5).timestamps.tolist()
        [5]
        """
        stamps = super().timestamps
        assert stamps is not None  # every way to make a stored batch gives it some
        return stamps

    def __iter__(self) -> Iterator[StoredRecord]:
        rows = zip(
            self._values,
            repeat(None) if self._keys is None else self._keys,
            repeat(()) if self._headers is None else self._headers,
            self.timestamps,
            self.offsets,
            strict=False,  # repeat() has no end
        )
        return map(_STORED_RECORD, rows)

    @overload
    def __getitem__(self, index: int) -> StoredRecord: ...
    @overload
    def __getitem__(self, index: slice) -> StoredBatch: ...
    def __getitem__(self, index: int | slice) -> StoredRecord | StoredBatch:
        if isinstance(index, slice):
            part: StoredBatch = _new(StoredBatch)
            part._take_slice(self, index)
            part.offsets = self.offsets[index]
            part.partition = self.partition
            return part
        value, key, headers, timestamp = super().__getitem__(index)
        assert timestamp is not None
        return StoredRecord(value, key, headers, timestamp, self.offsets[index])

    def __reduce__(self) -> tuple[Any, ...]:
        values, keys, headers, stamps = super()._columns()
        constant = not self._flags & FLAG_TIMESTAMPS and len(stamps)
        return _unpickled, (
            self.offsets,
            values,
            stamps[0] if constant else array("q", stamps),
            keys,
            headers,
            self.partition,
        )

    def __repr__(self) -> str:
        return f"<StoredBatch of {len(self)} at {self.offsets!r}: {self._value_bytes + self._key_bytes} bytes>"

    def _columns(self) -> tuple[Any, ...]:
        offsets = self.offsets
        return (*super()._columns(), offsets if isinstance(offsets, range) else list(offsets))


def _unpickled(
    offsets: Sequence[int],
    values: BinaryColumn,
    timestamps: Sequence[int] | int,
    keys: BinaryColumn | None,
    headers: HeaderColumn | None,
    partition: int | None,
) -> StoredBatch:
    stored = StoredBatch.from_columns(offsets, values, timestamps=0, keys=keys, headers=headers)
    stored.partition = partition
    # As they were read, which a caller could not always pass: a record on Kafka without a time has -1.
    if isinstance(timestamps, int):
        stored._timestamps = timestamps
    else:
        stored._timestamps = memoryview(array("q", timestamps)).toreadonly()
        stored._flags |= FLAG_TIMESTAMPS
    return stored

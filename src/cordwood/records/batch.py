"""A batch: records that are appended together."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, repeat
from operator import length_hint
from struct import pack
from types import NoneType
from typing import TYPE_CHECKING, Any, cast, overload

from cordwood.errors import InvalidInput
from cordwood.records.column import BinaryColumn, Rows, checked_length, checked_rows, is_rows
from cordwood.records.headers import HeaderColumn, checked_headers
from cordwood.records.layout import (
    FLAG_HEADER_NULLS,
    FLAG_HEADERS,
    FLAG_KEY_NULLS,
    FLAG_KEYS,
    FLAG_TIMESTAMPS,
    FLAG_VALUE_NULLS,
    WEIGHT_HEADER_BYTES,
    WEIGHT_RECORD_BYTES,
)
from cordwood.records.record import Record

if TYPE_CHECKING:
    import pyarrow

TIMESTAMP_MS_MAX = 2**63 - 1

_new = object.__new__
_RECORD: Any = partial(tuple.__new__, Record)  # Record's own __new__ is Python, and would be called for each
_BYTES_OR_NONE = {bytes, NoneType}


class Batch:
    """Records that are appended together, all or nothing; immutable.

    It keeps the values it was made of and turns them into columns on first access. It compares by its records, and can
    be pickled. `batch[i]` is a `Record`; `batch[i:j]` is a batch, which copies no bytes of columns.

    >>> batch = Batch.of([b"a", None], keys=[b"k", None])
    >>> len(batch), batch.values[0], batch.keys[1]
    (2, b'a', None)
    >>> [record.value for record in batch]
    [b'a', None]
    """

    __slots__ = (
        "_ends",
        "_flags",
        "_headers",
        "_key_bytes",
        "_keys",
        "_timestamps",
        "_value_bytes",
        "_values",
        "weight",
    )

    # Rows as they were given, or columns after the first access. If two threads access them at once, they make two
    # equal columns, and one stays.
    _values: Rows | BinaryColumn
    _keys: Rows | BinaryColumn | None  # None: no record has a key
    _headers: HeaderColumn | None  # None: no record has a header
    # A column; with no FLAG_TIMESTAMPS: all records have the one given here, or get one when they are appended.
    _timestamps: memoryview | int | None
    _flags: int  # the flags of a frame of this batch alone
    _value_bytes: int
    _key_bytes: int
    # Where each value ends when they are joined, after a 0: if they are rows, and their lengths were measured already.
    _ends: list[int] | None

    weight: int
    """The most bytes that this batch adds to a frame, whatever it shares the frame with.

    See `GROUP_WEIGHT_MAX`.
    """

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} is not to be called: use Batch.of(values)")

    @staticmethod
    def of(
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> Batch:
        """A batch of these values; keys, headers and timestamps, if given, have one entry for each.

        Timestamps are milliseconds UTC. The sequences are copied, so a later change of them has no effect; the bytes
        are not copied. A wrong type is a TypeError, different lengths or a timestamp out of range `InvalidInput`.

        >>> batch = Batch.of(
        ...     [b"a", b"b"],
        ...     keys=[b"k", None],
        ...     headers=[[("h", b"1")], []],
        ...     timestamps=[1_700_000_000_000, 1_700_000_000_001],
        ... )
        >>> batch.headers[0], batch.timestamps[1]
        ((('h', b'1'),), 1700000000001)
        """
        batch: Batch = _new(Batch)
        kind = type(values)
        if kind is list or kind is tuple:
            count = len(values)
            flags = 0
            ends = None
            # One small record, appended alone, must cost less than a microsecond; for many, there is no Python per
            # record here.
            if count == 1 and type(value := values[0]) is bytes:
                rows: Rows = [value]
                size = len(value)
            else:
                rows = list(values)
                types = set(map(type, rows))
                if not types <= _BYTES_OR_NONE:
                    rows, _ = checked_rows("values", rows)
                if NoneType in types:
                    flags = FLAG_VALUE_NULLS
                lengths = map(length_hint, rows) if flags else map(len, cast("list[bytes]", rows))
                ends = list(accumulate(lengths, initial=0))
                size = ends[-1]
            batch._values = rows
            batch._ends = ends
        else:
            batch._ends = None
            batch._values, null_count, size = _column_or_rows("values", values)
            flags = FLAG_VALUE_NULLS if null_count else 0
            count = len(batch._values)
        batch._value_bytes = size
        batch._key_bytes = 0
        batch._keys = batch._headers = batch._timestamps = None
        batch.weight = size + WEIGHT_RECORD_BYTES * count
        if keys is not None:
            flags |= batch._take_keys(keys, count)
        if headers is not None:
            flags |= batch._take_headers(checked_headers(headers, count))
        if timestamps is not None:
            flags |= FLAG_TIMESTAMPS
            batch._timestamps = checked_timestamps(timestamps, count)
        batch._flags = flags
        return batch

    @property
    def values(self) -> BinaryColumn:
        """The values, as a column.

        >>> Batch.of([b"a", None]).values
        <BinaryColumn of 2: b'a', None>
        """
        if type(self._values) is list:
            self._values = BinaryColumn.of(self._values)
        return self._values  # type: ignore[return-value]  # a list was replaced above

    @property
    def keys(self) -> BinaryColumn:
        """The keys, as a column: all null if none were given.

        >>> Batch.of([b"a"]).keys
        <BinaryColumn of 1: None>
        """
        if self._keys is None:
            return BinaryColumn.nulls(len(self))
        if type(self._keys) is list:
            self._keys = BinaryColumn.of(self._keys)
        return self._keys  # type: ignore[return-value]  # a list was replaced above

    @property
    def headers(self) -> HeaderColumn:
        """A tuple of (name, value) pairs for each record.

        >>> Batch.of([b"a", b"b"], headers=[[("h", None)], []]).headers[0]
        (('h', None),)
        """
        return HeaderColumn.none(len(self)) if self._headers is None else self._headers

    @property
    def timestamps(self) -> memoryview | None:
        """The timestamps, int64 in ms UTC; None: the log sets one for all when the batch is appended.

        >>> Batch.of([b"a"], timestamps=[1_700_000_000_000]).timestamps.tolist()
        [1700000000000]
        """
        if type(self._timestamps) is int:
            self._timestamps = memoryview(array("q", [self._timestamps]) * len(self)).toreadonly()
        return self._timestamps  # type: ignore[return-value]  # an int was replaced above

    def rows(
        self,
    ) -> tuple[Sequence[bytes | None], Sequence[bytes | None] | None, HeaderColumn | None, memoryview | None]:
        """Values, keys, headers and timestamps as they are kept, for a log that takes records one by one.

        It makes no columns; keys, headers or timestamps that no record has are None.

        >>> Batch.of([b"a", b"b"], keys=[b"k", None]).rows()
        ([b'a', b'b'], [b'k', None], None, None)
        """
        return self._values, self._keys, self._headers, self.timestamps

    def to_arrow(self) -> pyarrow.RecordBatch:
        """A `pyarrow.RecordBatch` with the columns key, value, headers and timestamp; it copies no key or value.

        It needs pyarrow (`pip install 'cordwood[arrow]'`), and keeps the batch's buffers alive.

        >>> Batch.of([b"a", None]).to_arrow().column("value").to_pylist()
        [b'a', None]
        """
        from cordwood.records.arrow import record_batch

        return record_batch(self)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Record]:
        stamps = self.timestamps
        rows = zip(
            self._values,
            repeat(None) if self._keys is None else self._keys,
            repeat(()) if self._headers is None else self._headers,
            repeat(None) if stamps is None else stamps,
            strict=False,  # repeat() has no end
        )
        return map(_RECORD, rows)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...
    def __getitem__(self, index: int | slice) -> Record | Batch:
        if isinstance(index, slice):
            part: Batch = _new(Batch)
            part._take_slice(self, index)
            return part
        try:
            value = self._values[index]
        except IndexError:
            raise IndexError(f"record {index} of a batch of {len(self)}") from None
        stamps = self.timestamps
        return Record(
            value,
            None if self._keys is None else self._keys[index],
            () if self._headers is None else self._headers[index],
            None if stamps is None else stamps[index],
        )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return len(self) == len(other) and self._columns() == other._columns()

    __hash__ = None  # type: ignore[assignment]  # a batch may be megabytes: a program should not hash it by accident

    def __reduce__(self) -> tuple[Any, ...]:
        values, keys, headers, stamps = self._columns()
        return _unpickled, (values, keys, headers, None if stamps is None else array("q", stamps))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)}: {self._value_bytes + self._key_bytes} bytes>"

    def _columns(self) -> tuple[Any, ...]:
        keys = None if self._keys is None else self.keys
        return self.values, keys, self._headers, self.timestamps

    def _take_keys(self, keys: Sequence[bytes | None], count: int) -> int:
        """Keep the keys, if there are any, and return the flags that they need."""
        rows, nulls, size = _column_or_rows("keys", keys)
        checked_length("keys", len(rows), count)
        if nulls == count:
            return 0
        self._keys = rows
        self._key_bytes = size
        self.weight += size
        return FLAG_KEYS | FLAG_KEY_NULLS if nulls else FLAG_KEYS

    def _take_headers(self, headers: HeaderColumn | None) -> int:
        """Keep the headers, if there are any, and return the flags that they need."""
        if headers is None:
            return 0
        self._headers = headers
        total, name_bytes, value_bytes, nulls = headers.sizes()
        self.weight += name_bytes + value_bytes + WEIGHT_HEADER_BYTES * total
        return FLAG_HEADERS | FLAG_HEADER_NULLS if nulls else FLAG_HEADERS

    def _take_rows(
        self, values: Rows, keys: Rows | None, headers: HeaderColumn | None, timestamps: Iterable[int]
    ) -> None:
        """Become these records, whose types are known to be right; the lists are kept, not copied."""
        nulls, self._value_bytes = _measured(values)
        flags = FLAG_TIMESTAMPS | (FLAG_VALUE_NULLS if nulls else 0)
        self._values = values
        self._ends = None
        self._keys, self._key_bytes = None, 0
        if keys is not None:
            nulls, size = _measured(keys)
            if not nulls or keys.count(None) < len(keys):
                self._keys, self._key_bytes = keys, size
                flags |= FLAG_KEYS | FLAG_KEY_NULLS if nulls else FLAG_KEYS
        self.weight = self._value_bytes + self._key_bytes + WEIGHT_RECORD_BYTES * len(values)
        self._headers = None
        self._flags = flags | self._take_headers(headers)
        self._timestamps = memoryview(pack(f"<{len(values)}q", *timestamps)).cast("q")

    def _take_slice(self, whole: Batch, window: slice) -> None:
        """Become the records of `whole` in that window: columns are shared, lists copied."""
        values, nulls, size = _column_or_rows("values", whole._values[window])
        count = len(values)
        flags = FLAG_VALUE_NULLS if nulls else 0
        self._values = values
        self._ends = None
        self._value_bytes = size
        self._key_bytes = 0
        self._keys = self._headers = None
        self.weight = size + WEIGHT_RECORD_BYTES * count
        if whole._keys is not None and count:
            flags |= self._take_keys(whole._keys[window], count)
        if whole._headers is not None:
            flags |= self._take_headers(checked_headers(whole._headers[window], count))
        stamps = whole._timestamps
        if isinstance(stamps, memoryview):
            stamps = stamps[window]
            stamps = stamps if stamps.c_contiguous else memoryview(array("q", stamps)).toreadonly()
        self._timestamps = stamps
        self._flags = flags | whole._flags & FLAG_TIMESTAMPS


def checked_timestamps(timestamps: Sequence[int], count: int) -> memoryview:
    """A copy of the timestamps as int64: one for each of `count` records, none of them before 1970."""
    if type(timestamps) is not memoryview and not is_rows(timestamps):
        raise TypeError(f"timestamps: a sequence of int (ms UTC) is needed, not {type(timestamps).__name__}")
    stamps = list(timestamps)
    checked_length("timestamps", len(stamps), count)
    if not set(map(type, stamps)) <= {int}:
        for index, stamp in enumerate(stamps):
            if type(stamp) is bool or not isinstance(stamp, int):
                raise TypeError(f"timestamps[{index}]: int (ms UTC) is needed, not {type(stamp).__name__}")
    if stamps and not 0 <= min(stamps) <= max(stamps) <= TIMESTAMP_MS_MAX:
        index, stamp = next((i, s) for i, s in enumerate(stamps) if not 0 <= s <= TIMESTAMP_MS_MAX)
        raise InvalidInput(f"timestamps[{index}]: {stamp} ms; it must be from 0 to {TIMESTAMP_MS_MAX}")
    return memoryview(array("q", stamps)).toreadonly()


def _measured(rows: Rows) -> tuple[bool, int]:
    """Whether there is a None among rows whose types are known to be right, and their bytes."""
    # Mostly nothing is null or empty, which is the fastest to detect.
    if not all(rows) and NoneType in set(map(type, rows)):
        return True, sum(map(length_hint, rows))
    present: Any = rows
    return False, sum(map(len, present))


def _column_or_rows(name: str, values: Sequence[bytes | None]) -> tuple[Rows | BinaryColumn, int, int]:
    """The values as they are kept, the number of nulls among them, and their bytes."""
    if type(values) is BinaryColumn:
        return values, values.null_count, values.data_bytes
    rows, nulls = checked_rows(name, values)
    return rows, rows.count(None) if nulls else 0, sum(map(length_hint, rows))


def _unpickled(
    values: BinaryColumn,
    keys: BinaryColumn | None,
    headers: HeaderColumn | None,
    timestamps: Sequence[int] | None,
) -> Batch:
    return Batch.of(values, keys=keys, headers=headers, timestamps=timestamps)

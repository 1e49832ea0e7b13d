"""A column of byte strings in Arrow's binary layout, without Arrow.

Entry `i` is `data[offsets[i]:offsets[i + 1]]`; a bitmap, if there is one, marks which entries are null. A column is a
window (start, length) onto such buffers, so that a slice of it copies nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, compress, count, repeat
from operator import is_not, length_hint, sub
from struct import error as StructError
from struct import pack
from types import NoneType
from typing import Any, TypeAlias, TypeGuard, overload

from cordwood.errors import InvalidInput, TooLarge

COLUMN_BYTES_MAX = 2**31 - 1

Rows: TypeAlias = "list[bytes | None]"

# For entries up to this size on average, an iteration copies them all at once: slices of bytes are twice as fast as
# bytes of slices. Above, the copy costs more than it saves.
_COPIED_ENTRY_BYTES_MAX = 256

_ASCII_BITS = bytes.maketrans(b"\x00\x01", b"01")


class BinaryColumn(Sequence["bytes | None"]):
    """An immutable sequence of `bytes | None` over three buffers.

    Indexing returns `bytes` (a copy of that entry) or None; a slice with step 1 shares the buffers. The buffers stay
    alive as long as a column of them does: a small slice of a big batch keeps all of that batch.

    >>> column = BinaryColumn.of([b"ab", None, b""])
    >>> column[0], column[1], column[-1], len(column)
    (b'ab', None, b'', 3)
    >>> column[1:] == [None, b""]
    True
    """

    __slots__ = ("_data", "_length", "_nulls", "_offsets", "_start", "_validity")

    def __init__(
        self,
        offsets: memoryview,
        data: memoryview,
        validity: memoryview | None = None,
        start: int = 0,
        length: int | None = None,
    ) -> None:
        """A window onto buffers in Arrow's layout: `offsets` of format "i", `data` and `validity` of format "B".

        >>> import array
        >>> BinaryColumn(memoryview(array.array("i", [0, 1, 3])), memoryview(b"abc"))
        <BinaryColumn of 2: b'a', b'bc'>
        """
        self._offsets = offsets
        self._data = data
        self._validity = validity
        self._start = start
        self._length = len(offsets) - 1 - start if length is None else length
        self._nulls = 0 if validity is None else -1  # -1: not counted yet

    @staticmethod
    def of(values: Sequence[bytes | None]) -> BinaryColumn:
        """Copy the values into one new column.

        >>> BinaryColumn.of([b"ab", None])
        <BinaryColumn of 2: b'ab', None>
        """
        if type(values) is BinaryColumn:
            return values
        rows, nulls = checked_rows("values", values)
        offsets = row_offsets(rows, nulls)
        data = memoryview(b"".join(present_rows(rows, nulls)))
        return BinaryColumn(offsets, data, memoryview(row_bitmap(rows)) if nulls else None)

    @staticmethod
    def nulls(length: int) -> BinaryColumn:
        """A column of nulls only.

        >>> list(BinaryColumn.nulls(2))
        [None, None]
        """
        offsets = memoryview(bytes(4 * length + 4)).cast("i")
        return BinaryColumn(offsets, memoryview(b""), memoryview(bytes((length + 7) >> 3)))

    @property
    def start(self) -> int:
        """The entry of the buffers at which this column begins; Arrow calls it the offset.

        >>> BinaryColumn.of([b"a", b"b"])[1:].start
        1
        """
        return self._start

    @property
    def null_count(self) -> int:
        """How many entries are None.

        >>> BinaryColumn.of([b"", None]).null_count
        1
        """
        if self._nulls < 0:
            self._nulls = self._length - self._bits().bit_count()
        return self._nulls

    @property
    def data_bytes(self) -> int:
        """The bytes of all entries together.

        >>> BinaryColumn.of([b"ab", None, b"c"]).data_bytes
        3
        """
        return int(self._offsets[self._start + self._length] - self._offsets[self._start])

    @property
    def nbytes(self) -> int:
        """The bytes of this column's part of the buffers: entries, offsets, bitmap.

        >>> BinaryColumn.of([b"ab", b"c"]).nbytes
        15
        """
        start, length, offsets = self._start, self._length, self._offsets
        size: int = offsets[start + length] - offsets[start] + 4 * length + 4
        return size if self._validity is None else size + ((length + 7) >> 3)

    def buffers(self) -> tuple[memoryview | None, memoryview, memoryview]:
        """Validity bitmap (bit 1 = valid, lowest bit first; None: no nulls), int32 offsets, data; not copied.

        They are the buffers of the whole column that this one may be a slice of: it begins at entry `start`.

        >>> validity, offsets, data = BinaryColumn.of([b"ab", b"c"]).buffers()
        >>> validity, offsets.tolist(), bytes(data)
        (None, [0, 2, 3], b'abc')
        """
        return self._validity, self._offsets, self._data

    def tolist(self) -> list[bytes | None]:
        """All entries as a list.

        >>> BinaryColumn.of([b"ab", None]).tolist()
        [b'ab', None]
        """
        return list(self)

    def compact(self) -> tuple[bytes | memoryview | None, memoryview, memoryview]:
        """The buffers for this column's entries alone: they begin at entry 0 and byte 0, and end with the last entry.

        Copies no data, and copies offsets and bitmap only if the column is a slice.

        >>> _, offsets, data = BinaryColumn.of([b"ab", b"cd"])[1:].compact()
        >>> offsets.tolist(), bytes(data)
        ([0, 2], b'cd')
        """
        start, stop = self._start, self._start + self._length
        offsets = self._offsets[start : stop + 1]
        low, high = offsets[0], offsets[-1]
        if low:
            offsets = memoryview(array("i", map(sub, offsets, repeat(low))))
        validity: bytes | memoryview | None = self._validity
        bitmap_bytes = (self._length + 7) >> 3
        if validity is not None and (start or self._length & 7 or len(validity) != bitmap_bytes):
            validity = self._bits().to_bytes(bitmap_bytes, "little")
        return validity, offsets, self._data[low:high]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> BinaryColumn: ...
    def __getitem__(self, index: int | slice) -> bytes | BinaryColumn | None:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step != 1:
                return BinaryColumn.of(self.tolist()[index])
            return BinaryColumn(self._offsets, self._data, self._validity, self._start + start, max(0, stop - start))
        entry = index + self._length if index < 0 else index
        if not 0 <= entry < self._length:
            raise IndexError(f"entry {index} of a column of {self._length}")
        entry += self._start
        if self._validity is not None and not self._validity[entry >> 3] >> (entry & 7) & 1:
            return None
        return bytes(self._data[self._offsets[entry] : self._offsets[entry + 1]])

    def __iter__(self) -> Iterator[bytes | None]:
        bounds = self._offsets[self._start : self._start + self._length + 1].tolist()
        low, high = bounds[0], bounds[-1]
        entries: Iterator[bytes]
        if high - low > _COPIED_ENTRY_BYTES_MAX * self._length:
            entries = map(bytes, map(self._data.__getitem__, map(slice, bounds, bounds[1:])))
        else:
            blob = bytes(self._data[low:high])
            if low:
                bounds = list(map(sub, bounds, repeat(low)))
            entries = map(blob.__getitem__, map(slice, bounds, bounds[1:]))
        if not self.null_count:
            return entries
        rows: Rows = list(entries)
        for null in compress(count(), map("0".__eq__, bin(self._bits() | 1 << self._length)[:2:-1])):
            rows[null] = None
        return iter(rows)

    def __eq__(self, other: object) -> bool:
        if is_rows(other):
            return len(self) == len(other) and list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either

    def __reduce__(self) -> tuple[Any, ...]:
        validity, offsets, data = self.compact()
        return _unpickled, (offsets.tobytes(), data.tobytes(), None if validity is None else bytes(validity))

    def __repr__(self) -> str:
        shown = [_shown(self[i]) for i in range(min(3, self._length))] + ["…"] * (self._length > 3)
        return f"<BinaryColumn of {self._length}: {', '.join(shown)}>" if shown else "<BinaryColumn of 0>"

    def _bits(self) -> int:
        """The validity of this window as one integer, its first entry in the lowest bit."""
        if self._validity is None:
            return (1 << self._length) - 1
        first, last = self._start >> 3, (self._start + self._length + 7) >> 3
        bits = int.from_bytes(self._validity[first:last], "little") >> (self._start & 7)
        return bits & ((1 << self._length) - 1)


def present_rows(rows: Rows, nulls: bool) -> list[bytes]:
    """The rows that are not null, or all of them if none is."""
    present: Any = list(filter(None, rows)) if nulls else rows
    return present  # type: ignore[no-any-return]  # `nulls` decides it, which the type checker cannot know


def row_offsets(rows: Rows, nulls: bool, ends: Iterable[int] | None = None) -> memoryview:
    """Where each row begins and ends when they are joined, in Arrow's layout; `ends` are the same, if known."""
    present: Any = rows  # without nulls, which the type checker cannot know
    # One C loop for each buffer: no Python per record.
    if ends is None:
        ends = accumulate(map(length_hint, rows) if nulls else map(len, present), initial=0)
    try:
        # `pack` takes a third of the time that an array needs for the same numbers.
        return memoryview(pack(f"<{len(rows) + 1}i", *ends)).cast("i")
    except StructError:
        raise TooLarge(f"a column of {rows_bytes(rows)} bytes; limit {COLUMN_BYTES_MAX}") from None


def row_bitmap(rows: Rows) -> bytes:
    """Which rows are not null, in Arrow's layout."""
    valid = bytes(map(is_not, rows, repeat(None)))
    bits = int(valid[::-1].translate(_ASCII_BITS), 2)
    return bits.to_bytes((len(rows) + 7) >> 3, "little")


def rows_bytes(rows: Rows | BinaryColumn) -> int:
    """The bytes of all rows together."""
    return rows.data_bytes if type(rows) is BinaryColumn else sum(map(length_hint, rows))


def has_nulls(rows: Rows | BinaryColumn) -> bool:
    """Whether a None is among them."""
    return rows.null_count > 0 if type(rows) is BinaryColumn else NoneType in set(map(type, rows))


def is_rows(values: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a sequence with an entry for each record: bytes and text are not, though they iterate.

    >>> is_rows([b"a"]), is_rows(b"a")
    (True, False)
    """
    kind = type(values)
    if kind is list or kind is tuple:  # an isinstance of an abstract class costs a third of a small batch
        return True
    return isinstance(values, Sequence) and not isinstance(values, (bytes, bytearray, memoryview, str))


def checked_rows(name: str, values: Sequence[bytes | None]) -> tuple[Rows, bool]:
    """A copy of the values as a list of only bytes and None; whether there is a None.

    This is the slow path, which also raises the errors about wrong values.
    """
    if not is_rows(values):
        raise TypeError(f"{name}: a sequence of bytes or None is needed, not {type(values).__name__}")
    rows = list(values)
    types = set(map(type, rows))
    if not types <= {bytes, NoneType}:
        for index, value in enumerate(rows):
            if value is not None and not isinstance(value, bytes):
                raise TypeError(f"{name}[{index}]: bytes or None is needed, not {type(value).__name__}")
        rows = [None if value is None else bytes(value) for value in rows]
    return rows, NoneType in types


def checked_length(name: str, length: int, count: int) -> None:
    """Refuse a column that does not have one entry for each record."""
    if length != count:
        raise InvalidInput(f"{name}: {length} entries for {count} values; one for each is needed")


def _unpickled(offsets: bytes, data: bytes, validity: bytes | None) -> BinaryColumn:
    bitmap = None if validity is None else memoryview(validity)
    return BinaryColumn(memoryview(offsets).cast("i"), memoryview(data), bitmap)


def _shown(value: bytes | None) -> str:
    return repr(value) if value is None or len(value) <= 16 else f"{value[:16]!r}… {len(value)} bytes"

"""The headers of a batch's records: a list column of (name, value) pairs, in Arrow's layout."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from operator import add, sub
from typing import Any, overload

from cordwood.errors import Corrupt, InvalidInput
from cordwood.records.column import BinaryColumn, Rows, checked_length, has_nulls, is_rows, rows_bytes
from cordwood.records.record import RecordHeaders


class HeaderColumn(Sequence[RecordHeaders]):
    """An immutable sequence with a tuple of (name, value) pairs for each record.

    Names may repeat, values may be None; the order is kept. Record `i` has the pairs from `offsets[i]` to `offsets[i +
    1]` of the columns `names` (UTF-8) and `values`.

    >>> headers = HeaderColumn.of([[("a", b"1"), ("a", None)], []])
    >>> headers[0], headers[1]
    ((('a', b'1'), ('a', None)), ())
    """

    __slots__ = ("_length", "_names", "_offsets", "_start", "_values")

    # Rows as they were given, or columns after the first access.
    _names: Rows | BinaryColumn
    _values: Rows | BinaryColumn

    def __init__(
        self,
        offsets: memoryview,
        names: Rows | BinaryColumn,
        values: Rows | BinaryColumn,
        start: int = 0,
        length: int | None = None,
    ) -> None:
        self._offsets = offsets
        self._names = names
        self._values = values
        self._start = start
        self._length = len(offsets) - 1 - start if length is None else length

    @staticmethod
    def of(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> HeaderColumn:
        """Check and copy the headers of some records.

        >>> len(HeaderColumn.of([[("trace", b"7f")], []]))
        2
        """
        if type(headers) is HeaderColumn:
            return headers
        if not is_rows(headers):
            raise TypeError(f"headers: a sequence of sequences of pairs is needed, not {type(headers).__name__}")
        try:
            rows = list(map(tuple, headers))
            pairs = list(chain.from_iterable(rows))
            shapes = set(map(type, pairs)), set(map(len, pairs))
        except TypeError:
            _refuse(headers)
            raise
        if not (shapes[0] <= {tuple} and shapes[1] <= {2}):
            _refuse(headers)
        names, values = map(list, zip(*pairs, strict=True)) if pairs else ([], [])
        if not (set(map(type, names)) <= {str} and set(map(type, values)) <= {bytes, type(None)}):
            _refuse(headers)
        try:
            encoded: list[bytes | None] = list(map(str.encode, names))
        except UnicodeEncodeError as error:
            raise InvalidInput(f"headers: the name {error.object!r} is not valid Unicode: {error.reason}") from error
        offsets = memoryview(array("i", accumulate(map(len, rows), initial=0))).toreadonly()
        return HeaderColumn(offsets, encoded, values)

    @staticmethod
    def none(length: int) -> HeaderColumn:
        """The headers of that many records without any.

        >>> HeaderColumn.none(2) == [(), ()]
        True
        """
        return HeaderColumn(memoryview(bytes(4 * length + 4)).cast("i"), [], [])

    @staticmethod
    def joined(parts: Sequence[HeaderColumn]) -> HeaderColumn:
        """The headers of the records of all parts, one part after the other.

        >>> list(HeaderColumn.joined([HeaderColumn.of([[("a", b"")]]), HeaderColumn.none(1)]))
        [(('a', b''),), ()]
        """
        offsets = array("i", [0])
        names: Rows = []
        values: Rows = []
        for part in parts:
            part_offsets, part_names, part_values = part.compact()
            offsets.extend(map(add, part_offsets[1:], repeat(len(names))))
            names.extend(part_names)
            values.extend(part_values)
        return HeaderColumn(memoryview(offsets).toreadonly(), names, values)

    @property
    def names(self) -> BinaryColumn:
        """The names of all headers, UTF-8; in a slice, also those of the records around it.

        >>> HeaderColumn.of([[("a", b"1")], [("b", None)]]).names.tolist()
        [b'a', b'b']
        """
        if type(self._names) is list:
            self._names = BinaryColumn.of(self._names)
        return self._names  # type: ignore[return-value]  # a list was replaced above

    @property
    def values(self) -> BinaryColumn:
        """The values of all headers; in a slice, also those of the records around it.

        >>> HeaderColumn.of([[("a", b"1")], [("b", None)]]).values.tolist()
        [b'1', None]
        """
        if type(self._values) is list:
            self._values = BinaryColumn.of(self._values)
        return self._values  # type: ignore[return-value]  # a list was replaced above

    @property
    def total(self) -> int:
        """The number of headers, over all records.

        >>> HeaderColumn.of([[("a", b""), ("b", b"")], []]).total
        2
        """
        return int(self._offsets[self._start + self._length] - self._offsets[self._start])

    def sizes(self) -> tuple[int, int, int, bool]:
        """The number of headers, the bytes of their names and of their values, and whether a value is null.

        >>> HeaderColumn.of([[("name", b"1"), ("x", None)]]).sizes()
        (2, 5, 1, True)
        """
        _, names, values = self.compact()
        return len(names), rows_bytes(names), rows_bytes(values), has_nulls(values)

    def buffers(self) -> tuple[memoryview, int]:
        """The int32 list offsets, and the entry of them at which this column begins.

        >>> offsets, start = HeaderColumn.of([[("a", b"")], []]).buffers()
        >>> offsets.tolist(), start
        ([0, 1, 1], 0)
        """
        return self._offsets, self._start

    def compact(self) -> tuple[memoryview, Rows | BinaryColumn, Rows | BinaryColumn]:
        """List offsets that begin at 0, with only the names and values that they refer to.

        >>> offsets, names, _ = HeaderColumn.of([[("a", b"")], [("b", b"")]])[1:].compact()
        >>> offsets.tolist(), list(names)
        ([0, 1], [b'b'])
        """
        offsets = self._offsets[self._start : self._start + self._length + 1]
        low, high = offsets[0], offsets[-1]
        if low:
            offsets = memoryview(array("i", map(sub, offsets, repeat(low))))
        if high - low == len(self._names):
            return offsets, self._names, self._values
        return offsets, self._names[low:high], self._values[low:high]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> RecordHeaders: ...
    @overload
    def __getitem__(self, index: slice) -> HeaderColumn: ...
    def __getitem__(self, index: int | slice) -> RecordHeaders | HeaderColumn:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step != 1:
                return HeaderColumn.of(list(self)[index])
            return HeaderColumn(self._offsets, self._names, self._values, self._start + start, max(0, stop - start))
        entry = index + self._length if index < 0 else index
        if not 0 <= entry < self._length:
            raise IndexError(f"headers of record {index} of {self._length}")
        entry += self._start
        pairs = slice(self._offsets[entry], self._offsets[entry + 1])
        return tuple(_pairs(self._names[pairs], self._values[pairs]))

    def __iter__(self) -> Iterator[RecordHeaders]:
        offsets, names, values = self.compact()
        pairs = list(_pairs(names, values))
        return map(tuple, map(pairs.__getitem__, map(slice, offsets, offsets[1:])))

    def __eq__(self, other: object) -> bool:
        if is_rows(other):
            return len(self) == len(other) and list(self) == list(map(tuple, other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either

    def __reduce__(self) -> tuple[Any, ...]:
        offsets, names, values = self.compact()
        return _unpickled, (offsets.tobytes(), names, values)

    def __repr__(self) -> str:
        return f"<HeaderColumn of {self._length}: {self.total} headers>"


def _pairs(names: Rows | BinaryColumn, values: Rows | BinaryColumn) -> Iterator[tuple[str, bytes | None]]:
    try:
        decoded = list(map(bytes.decode, names))  # type: ignore[arg-type]  # names have no nulls
    except UnicodeDecodeError as error:
        raise Corrupt(f"a header's name is not UTF-8: {error.object!r}") from error
    return zip(decoded, values, strict=True)


def _unpickled(offsets: bytes, names: Rows | BinaryColumn, values: Rows | BinaryColumn) -> HeaderColumn:
    return HeaderColumn(memoryview(offsets).cast("i"), names, values)


def _refuse(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> None:
    """Raise the error about headers that are known to be of a wrong type or shape."""
    for index, row in enumerate(headers):
        if not is_rows(row):
            raise TypeError(f"headers[{index}]: a sequence of pairs is needed, not {type(row).__name__}")
        for place, pair in enumerate(row):
            if not isinstance(pair, tuple):
                raise TypeError(f"headers[{index}][{place}]: a tuple is needed, not {type(pair).__name__}")
            if len(pair) != 2:
                raise InvalidInput(f"headers[{index}][{place}]: (name, value) is needed, not {len(pair)} entries")
            if not isinstance(pair[0], str):
                raise TypeError(f"headers[{index}][{place}]: the name must be str, not {type(pair[0]).__name__}")
            if pair[1] is not None and not isinstance(pair[1], bytes):
                kind = type(pair[1]).__name__
                raise TypeError(f"headers[{index}][{place}]: the value must be bytes or None, not {kind}")


def checked_headers(headers: Sequence[Sequence[tuple[str, bytes | None]]], count: int) -> HeaderColumn | None:
    """The headers of `count` records as a column; None if no record has any."""
    column = HeaderColumn.of(headers)
    checked_length("headers", len(column), count)
    return column if column.total else None

"""The payloads of many writes as one Arrow column: no Python code for each payload.

A write keeps its payloads as a column of its own: `count + 1` bounds, then the data (`docs/formats/wal-data.md`).
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, repeat
from operator import add, mul, sub
from struct import pack

import pyarrow as pa
import pyarrow.compute as pc

_BOUND_BYTES = 4


def payload_column(data: memoryview, starts: Sequence[int], counts: Sequence[int]) -> pa.Array:
    """The payloads of all writes whose columns begin at these bytes of `data`, in their order.

    Raises `pa.ArrowInvalid` if the bounds of a write do not fit.

    >>> from cordwood.wal.formats.cordwood.data_record import encode_payloads
    >>> first, second = encode_payloads([b"a", b"bc"]), encode_payloads([b""])
    >>> payload_column(memoryview(first + second), [0, len(first)], [2, 1]).to_pylist()
    [b'a', b'bc', b'']
    """
    if not counts:
        return pa.array([], pa.binary())
    bound_counts = list(map(add, counts, repeat(1)))
    sizes = list(map(mul, bound_counts, repeat(_BOUND_BYTES)))
    data_starts = list(map(add, starts, sizes))
    bounds = b"".join(map(data.__getitem__, map(slice, starts, data_starts)))
    total = sum(bound_counts)
    relative = pa.Array.from_buffers(pa.int32(), total, [None, pa.py_buffer(bounds)])
    absolute = pc.add_checked(relative, repeated(data_starts, bound_counts, pa.int32()))
    # Between the last payload of a write and the first one of the next is a gap, which Arrow sees as one more entry.
    with_gaps = pa.Array.from_buffers(pa.binary(), total - 1, [None, absolute.buffers()[1], pa.py_buffer(data)])
    with_gaps.validate(full=True)
    entries = sum(counts)
    return with_gaps.take(pc.add(numbers(entries), repeated(range(len(counts)), counts)))


def repeated(values: Sequence[int], counts: Sequence[int], kind: pa.DataType | None = None) -> pa.Array:
    """Each value as often as its count says.

    >>> repeated([7, 8], [2, 1]).to_pylist()
    [7, 7, 8]
    """
    run_ends = pa.array(accumulate(counts), pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(run_ends, pa.array(values, kind or pa.int64()))
    return pc.run_end_decode(runs)


def sequences(firsts: Sequence[int], counts: Sequence[int]) -> pa.Array:
    """The numbers of all entries: of each write from its first one on.

    >>> sequences([5, 1], [2, 1]).to_pylist()
    [5, 6, 1]
    """
    return pc.add(numbers(sum(counts)), repeated(list(map(sub, firsts, accumulate(counts, initial=0))), counts))


def numbers(count: int) -> pa.Array:
    """0 to below `count`."""
    return _numbers(1 << max(14, (count - 1).bit_length())).slice(0, count)


@cache
def _numbers(count: int) -> pa.Array:
    # Arrow adds a thousand numbers in the time in which Python makes a hundred.
    ones = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(pack("q", 1) * count)])
    return pc.subtract(pc.cumulative_sum(ones), 1)

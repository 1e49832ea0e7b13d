"""Batches to test with, and the rows that they must give back."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from cordwood.records import Batch, decode_frame, encode_frame

PLACE = {"plog": 2**64 - 2, "position": 4096, "first_offset": 70, "epoch": 3, "synced_end": 2048}
NOW_MS = 1_700_000_000_000

# The same examples on every run: what fails here fails everywhere, and a fixed bug stays a fixed test.
same_examples = settings(derandomize=True, deadline=None, database=None, max_examples=100)

binary = st.none() | st.binary(max_size=12)
names = st.text(max_size=6)
header_rows = st.lists(st.tuples(names, binary), max_size=3)
# Mostly windows with step 1, which share buffers; st.slices alone would seldom give one.
windows = st.builds(slice, st.integers(0, 9), st.none() | st.integers(0, 20)) | st.slices(20)
stamps = st.integers(0, 2**63 - 1)


@st.composite
def arguments(draw: st.DrawFn, min_size: int = 1) -> dict[str, Any]:
    """Arguments of Batch.of: any mix of nulls, empties, keys, headers and timestamps."""
    values = draw(st.lists(binary, min_size=min_size, max_size=20))
    count = len(values)

    def maybe(entries: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(entries, min_size=count, max_size=count))

    return {
        "values": values,
        "keys": maybe(binary),
        "headers": maybe(header_rows),
        "timestamps": maybe(stamps),
    }


def made(arguments: dict[str, Any]) -> Batch:
    return Batch.of(
        arguments["values"],
        keys=arguments["keys"],
        headers=arguments["headers"],
        timestamps=arguments["timestamps"],
    )


def rows(arguments: dict[str, Any], now_ms: int | None = None) -> list[tuple[Any, ...]]:
    """The records that a batch of these arguments must give: (value, key, headers, timestamp)."""
    count = len(arguments["values"])
    keys = arguments["keys"] or [None] * count
    headers = [tuple(row) for row in arguments["headers"] or [()] * count]
    return list(zip(arguments["values"], keys, headers, arguments["timestamps"] or [now_ms] * count, strict=True))


def framed(*batches: Batch, now_ms: int = NOW_MS, **place: int) -> bytes:
    return encode_frame(batches, **{**PLACE, **place}, now_ms=now_ms)


def stored(*batches: Batch, **place: int) -> Any:
    return decode_frame(memoryview(framed(*batches, **place)))


EVERYTHING = Batch.of(
    [b"value", None, b"", b"longer than eight bytes"],
    keys=[b"key", None, b"", b"k"],
    headers=[[("name", b"1"), ("name", None)], [], [("ü", b"")], []],
    timestamps=[5, 4, 7, 6],
)

import gc
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput, TooLarge
from cordwood.records import (
    FRAME_ALIGNMENT,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    GROUP_WEIGHT_MAX,
    Batch,
    BinaryColumn,
    Frame,
    check_frame,
    decode_frame,
    decode_header,
    frame_bytes,
    frame_of,
    is_whole,
    pieces,
)
from tests.support.records.batches import (
    EVERYTHING,
    NOW_MS,
    PLACE,
    arguments,
    framed,
    made,
    rows,
    same_examples,
    stored,
    windows,
)

groups = st.lists(arguments(), min_size=1, max_size=5)


def numbered(records: list[tuple[Any, ...]], first: int = 70) -> list[tuple[Any, ...]]:
    return [(*record, first + i) for i, record in enumerate(records)]


@same_examples
@given(groups)
def test_batches_come_back_from_their_frame_in_order(given: list[dict[str, Any]]) -> None:
    batch = stored(*map(made, given))
    expected = [record for one in given for record in rows(one, NOW_MS)]
    assert list(batch) == numbered(expected)
    assert batch.offsets == range(70, 70 + len(expected))
    assert batch.timestamps.tolist() == [record[3] for record in expected]


@same_examples
@given(groups, windows)
def test_batches_of_columns_are_framed_like_batches_of_lists(given: list[dict[str, Any]], cut: slice) -> None:
    read = [stored(made(one)) for one in given]
    parts = [part for part in (batch[cut] for batch in read) if len(part)]
    if not parts:
        return
    expected = [tuple(record)[:4] for part in parts for record in part]
    assert list(stored(*parts)) == numbered(expected)
    for part in parts:
        assert len(framed(part)) == frame_bytes(part)
        assert list(stored(part)) == numbered([tuple(record)[:4] for record in part])


@same_examples
@given(arguments())
def test_frame_bytes_is_exact_and_no_more_than_the_weight(given: dict[str, Any]) -> None:
    batch = made(given)
    assert len(framed(batch)) == frame_bytes(batch)
    assert frame_bytes(batch) <= batch.weight + FRAME_BYTES_MAX - GROUP_WEIGHT_MAX
    read = stored(batch)
    assert read.weight == batch.weight
    assert len(framed(read)) == frame_bytes(read)


@same_examples
@given(groups)
def test_the_weights_of_a_group_bound_its_frame(given: list[dict[str, Any]]) -> None:
    batches = list(map(made, given))
    slack = FRAME_BYTES_MAX - GROUP_WEIGHT_MAX
    assert len(framed(*batches)) <= sum(batch.weight for batch in batches) + slack


def test_the_slack_covers_the_worst_small_group() -> None:
    for count in range(1, 20):
        group = [EVERYTHING] + [Batch.of([None])] * count
        assert len(framed(*group)) <= sum(batch.weight for batch in group) + FRAME_BYTES_MAX - GROUP_WEIGHT_MAX


@same_examples
@given(arguments(), st.integers(0, 2**63 - 1))
def test_the_header_says_what_it_was_given(given: dict[str, Any], now_ms: int) -> None:
    batch = made(given)
    frame = framed(batch, now_ms=now_ms)
    header = decode_header(frame)
    assert header.plog == PLACE["plog"]
    assert header.position == PLACE["position"]
    assert header.first_offset == PLACE["first_offset"]
    assert header.synced_end == PLACE["synced_end"]
    assert header.epoch == PLACE["epoch"]
    assert header.length == len(frame)
    assert header.record_count == len(batch)
    assert header.next_offset == 70 + len(batch)
    assert header.timestamp_max == max(given["timestamps"] or [now_ms])
    assert check_frame(frame) == header
    assert check_frame(frame, 0, header) == header


@same_examples
@given(groups)
def test_every_column_of_a_frame_begins_at_a_multiple_of_eight(given: list[dict[str, Any]]) -> None:
    frame = framed(*map(made, given))
    assert len(frame) % FRAME_ALIGNMENT == 0
    start = pa.py_buffer(frame).address
    batch = decode_frame(frame)
    views = (
        [*batch.values.buffers(), *batch.keys.buffers()]
        if decode_header(frame).flags & 1
        else [*batch.values.buffers()]
    )
    headers: Any = batch._headers
    if headers is not None:
        views += [headers.buffers()[0], *headers.names.buffers(), *headers.values.buffers()]
    if decode_header(frame).flags & 32:
        views.append(batch.timestamps)
    for view in views:
        if view is not None and view.nbytes:
            place = pa.py_buffer(view).address - start
            assert FRAME_HEADER_BYTES <= place < len(frame)
            assert place % FRAME_ALIGNMENT == 0


def test_frames_stand_one_after_the_other_in_a_buffer() -> None:
    first, second = framed(EVERYTHING), framed(Batch.of([b"b"]), first_offset=74)
    buffer = memoryview(first + second + bytes(64))
    assert decode_frame(buffer) == decode_frame(first)
    assert decode_frame(buffer, len(first)) == decode_frame(second)
    assert decode_frame(buffer, len(first), decode_header(buffer, len(first))).offsets == range(74, 75)
    assert is_whole(buffer, len(first))
    assert not is_whole(buffer, len(first) + 8)
    assert not is_whole(buffer, len(first) + len(second))


def test_a_frame_without_own_timestamps_has_no_column_of_them() -> None:
    plain = framed(Batch.of([b"a"] * 100), Batch.of([b"b"]))
    stamped = framed(Batch.of([b"a"] * 100), Batch.of([b"b"], timestamps=[NOW_MS]))
    assert decode_header(plain).flags == 0
    assert len(stamped) == len(plain) + 8 * 101
    assert decode_frame(plain).timestamps.tolist() == [NOW_MS] * 101


def test_a_stored_batch_keeps_its_timestamp_when_it_is_appended_again() -> None:
    read = stored(Batch.of([b"a", b"b"]))
    again = framed(read, now_ms=NOW_MS + 5)
    assert decode_header(again).flags == 0
    assert decode_frame(again).timestamps.tolist() == [NOW_MS] * 2
    early = decode_frame(framed(read, Batch.of([b"c"]), now_ms=NOW_MS + 5))
    assert early.timestamps.tolist() == [NOW_MS, NOW_MS, NOW_MS + 5]
    read.timestamps  # noqa: B018  # makes the column, which must not change the frame
    assert framed(read, now_ms=NOW_MS + 5) == again
    mixed = decode_frame(framed(read, Batch.of([b"c"]), now_ms=NOW_MS + 5))
    assert mixed.timestamps.tolist() == [NOW_MS, NOW_MS, NOW_MS + 5]
    same = framed(read, read, Batch.of([b"c"]), now_ms=NOW_MS)
    assert decode_header(same).flags == 0


def test_keys_that_are_all_none_take_no_space() -> None:
    assert framed(Batch.of([b"a"], keys=[None])) == framed(Batch.of([b"a"]))
    part = stored(Batch.of([b"a", b"b"], keys=[b"k", None], headers=[[("h", b"")], []]))[1:]
    assert framed(part) == framed(Batch.of([b"b"]))


def test_a_frame_may_be_just_as_large_as_the_limit() -> None:
    most = FRAME_BYTES_MAX - FRAME_HEADER_BYTES - 8
    frame = framed(Batch.of([bytes(most)]))
    assert len(frame) == FRAME_BYTES_MAX
    assert len(decode_frame(frame).values[0] or b"") == most
    over = Batch.of([bytes(most + 1)])
    assert frame_bytes(over) == FRAME_BYTES_MAX + 8
    with pytest.raises(TooLarge, match=f"{FRAME_BYTES_MAX + 8} bytes; limit {FRAME_BYTES_MAX}"):
        framed(over)


def test_a_frame_of_no_records_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no records"):
        framed(Batch.of([]))
    with pytest.raises(InvalidInput, match="no records"):
        framed()


def test_an_empty_batch_in_a_group_adds_nothing() -> None:
    assert framed(Batch.of([]), Batch.of([b"a"])) == framed(Batch.of([b"a"]))


def assembled(frame: Frame) -> tuple[bytes, list[tuple[int, int]]]:
    """What its pieces are together, and where each of them begins and how long it is."""
    memory = bytearray(frame.length)
    places = []
    for at, buffers, size in frame.pieces(streamed=True):
        memory[at : at + size] = b"".join(buffers)
        assert len(memory) == frame.length
        places.append((at, size))
    return bytes(memory), places


SMALL_KEYS = [None if i % 9 == 0 else b"k" * (900 - i) for i in range(900)]
LARGE_KEYS = [None if i % 9 == 0 else b"k" * (1900 - i) for i in range(600)]


@pytest.mark.parametrize(
    "batch",
    [
        Batch.of([b"v" * (700 + i) for i in range(900)], keys=SMALL_KEYS),
        Batch.of([b"v" * (1000 + i) for i in range(900)]),
        Batch.of([b"v" * (800 + i) for i in range(600)], keys=LARGE_KEYS),
        Batch.of([None if i % 9 == 0 else b"v" * (1000 + i) for i in range(901)], timestamps=range(901)),
        decode_frame(framed(Batch.of([b"v" * (700 + i) for i in range(900)], keys=SMALL_KEYS))),
        Batch.of([b"v" * 700_000, b"w" * 300_001]),
    ],
    ids=["small", "large", "two columns", "nulls", "columns", "two records"],
)
def test_a_large_frame_is_the_same_in_pieces_and_its_header_comes_last(batch: Batch) -> None:
    frame = frame_of([batch], **PLACE, now_ms=NOW_MS)
    memory, places = assembled(frame)
    assert memory == framed(batch)
    assert places[-1][0] == 0
    assert FRAME_HEADER_BYTES <= places[-1][1] <= 64 * 1024
    assert sum(size for _, size in places) == frame.length
    assert len(places) > 2
    assert max(size for _, size in places) < 1024 * 1024


@same_examples
@given(groups, st.booleans(), st.integers(1, 60), st.integers(1, 60), st.integers(0, 9))
def test_a_frame_of_anything_is_the_same_in_pieces(
    given: list[dict[str, Any]], columns: bool, piece: int, part: int, row: int
) -> None:
    batches = [stored(made(one)) if columns else made(one) for one in given]
    small = patch.multiple(
        pieces,
        _STREAMED_FROM=0,
        _PIECE_BYTES=piece,
        _CHECKED_BYTES=piece,
        _GATHERED_PART_BYTES=part,
        _GATHERED_ROW_BYTES=row,
        _HEAD_BYTES=FRAME_HEADER_BYTES + piece,
    )
    with small:
        memory, places = assembled(frame_of(batches, **PLACE, now_ms=NOW_MS))
    assert memory == framed(*batches)
    assert sum(size for _, size in places) == len(memory)
    assert places[-1][0] == 0


def test_large_records_reach_the_disk_as_they_are() -> None:
    values = [bytes([i % 256]) * 1024 for i in range(1000)]
    frame = frame_of([Batch.of(values)], **PLACE, now_ms=NOW_MS)
    written = [buffer for _, buffers, _ in frame.pieces(streamed=True) for buffer in buffers]
    assert {id(value) for value in values} <= {id(buffer) for buffer in written}


def test_frames_that_are_put_together_at_once_do_not_share_memory() -> None:
    first = frame_of([Batch.of([b"a" * 100])], **PLACE, now_ms=NOW_MS)
    second = frame_of([Batch.of([b"b" * 100])], **PLACE, now_ms=NOW_MS)
    made_of = first.pieces()
    _, piece, _ = next(made_of)
    before = b"".join(piece)
    assert [b"".join(other) for _, other, _ in second.pieces()] == [framed(Batch.of([b"b" * 100]))]
    assert b"".join(piece) == before


# Python 3.13 warns on stderr that the collector has ended a buffer before its views; nothing uses either.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.BytesIO:pytest.PytestUnraisableExceptionWarning")
def test_a_frame_whose_writing_failed_does_no_harm_to_the_next() -> None:
    class Writing:
        """Holds itself and the pieces, so that the garbage collector ends them in whatever order it likes."""

        def __init__(self) -> None:
            self.itself = self
            self.pieces = frame_of([Batch.of([b"a" * 100])], **PLACE, now_ms=NOW_MS).pieces()
            next(self.pieces)

    for _ in range(20):
        Writing()
    gc.collect()
    assert decode_frame(framed(Batch.of([b"b" * 100]))).values.tolist() == [b"b" * 100]


def test_a_big_frame_with_every_column_comes_back() -> None:
    count = 20_000
    batch = Batch.of(
        [None if i % 7 == 0 else b"v%d" % i for i in range(count)],
        keys=[None if i % 3 == 0 else b"k%d" % i for i in range(count)],
        headers=[[("h", None if i % 5 else b"x")] * (i % 3) for i in range(count)],
        timestamps=range(count),
    )
    read = stored(batch)
    assert [tuple(record)[:4] for record in read] == list(batch)
    assert frame_bytes(batch) == len(framed(batch))


def test_columns_of_a_frame_cannot_be_written_even_where_its_buffer_can() -> None:
    batch = decode_frame(memoryview(bytearray(framed(EVERYTHING))))
    for view in (*batch.values.buffers(), *batch.keys.buffers(), batch.timestamps):
        assert view is not None
        assert view.readonly


def test_a_batch_keeps_its_buffer_alive() -> None:
    batch = decode_frame(bytes(framed(EVERYTHING)))
    part = batch.values[3:]
    del batch
    assert isinstance(part, BinaryColumn)
    assert part[0] == b"longer than eight bytes"

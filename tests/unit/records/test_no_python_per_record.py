"""What Cordwood does for a batch takes as many steps of Python for many records as for few."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cordwood
from cordwood.records import Batch, StoredBatch, check_frame, decode_frame, frame_bytes, frame_of
from tests.support.records.batches import NOW_MS, PLACE, framed

FEW, MANY = 100, 5000
# Each of the eight buffers of a frame is padded to 8 bytes, or has no need of it: a few instructions.
PADDING_STEPS = 8 * 8

_ROOT = str(Path(cordwood.__file__).parent)


def steps_of(call: Callable[[], object]) -> int:
    """How many calls, lines and instructions of Cordwood's own Python it takes; those of C have no part in it."""
    steps = 0

    def within(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        steps += 1
        return within

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_ROOT):
            return None
        # A comprehension in one line is at least one instruction for each entry.
        frame.f_trace_opcodes = True
        return within(frame, event, None)

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    assert steps > 0
    return steps


def check_as_many_steps(few: Callable[[], object], many: Callable[[], object]) -> None:
    assert abs(steps_of(many) - steps_of(few)) <= PADDING_STEPS


def plain(count: int) -> dict[str, Any]:
    return {"values": [b"ten bytes."] * count}


def with_nulls(count: int) -> dict[str, Any]:
    return {"values": [b"ten bytes.", None, b"", b"x", b"y"] * (count // 5)}


def with_keys(count: int) -> dict[str, Any]:
    return {**plain(count), "keys": [b"key", None, b"", b"other", b"key"] * (count // 5)}


def with_headers(count: int) -> dict[str, Any]:
    return {**plain(count), "headers": [[("name", b"1"), ("empty", None)], []] * (count // 2)}


def with_timestamps(count: int) -> dict[str, Any]:
    return {**plain(count), "timestamps": [*range(NOW_MS, NOW_MS + count)]}


def with_all(count: int) -> dict[str, Any]:
    return {**with_nulls(count), **with_keys(count), **with_headers(count), **with_timestamps(count)}


all_kinds = pytest.mark.parametrize(
    "kind",
    [plain, with_nulls, with_keys, with_headers, with_timestamps, with_all],
    ids=lambda kind: kind.__name__,
)
Kind = Callable[[int], dict[str, Any]]


def stored(arguments: dict[str, Any]) -> StoredBatch:
    return decode_frame(framed(Batch.of(**arguments)))


@all_kinds
def test_a_batch_is_made_without_python_for_a_record(kind: Kind) -> None:
    few, many = kind(FEW), kind(MANY)
    check_as_many_steps(lambda: Batch.of(**few), lambda: Batch.of(**many))


@all_kinds
def test_a_batch_is_encoded_without_python_for_a_record(kind: Kind) -> None:
    few, many = Batch.of(**kind(FEW)), Batch.of(**kind(MANY))
    check_as_many_steps(lambda: framed(few), lambda: framed(many))
    check_as_many_steps(lambda: frame_bytes(few), lambda: frame_bytes(many))


@all_kinds
def test_a_batch_that_was_read_is_encoded_without_python_for_a_record(kind: Kind) -> None:
    few, many = stored(kind(FEW))[5:], stored(kind(MANY))[5:]
    check_as_many_steps(lambda: framed(few), lambda: framed(many))


@all_kinds
def test_merging_batches_costs_python_for_a_batch_and_not_for_a_record(kind: Kind) -> None:
    few, many = ([Batch.of(**kind(count // 10))] * 10 for count in (FEW, MANY))
    check_as_many_steps(lambda: framed(*few), lambda: framed(*many))


@all_kinds
def test_a_frame_is_checked_and_decoded_without_python_for_a_record(kind: Kind) -> None:
    few, many = framed(Batch.of(**kind(FEW))), framed(Batch.of(**kind(MANY)))
    check_as_many_steps(lambda: check_frame(few), lambda: check_frame(many))
    check_as_many_steps(lambda: decode_frame(few), lambda: decode_frame(many))


@all_kinds
@pytest.mark.parametrize("made", [lambda arguments: Batch.of(**arguments), stored], ids=["given", "stored"])
def test_a_batch_goes_to_arrow_without_python_for_a_record(kind: Kind, made: Callable[[dict[str, Any]], Batch]) -> None:
    pytest.importorskip("pyarrow")
    few, many = ([made(kind(count)) for _ in range(2)] for count in (FEW, MANY))
    for batch in (few.pop(), many.pop()):
        batch.to_arrow()
    check_as_many_steps(few[0].to_arrow, many[0].to_arrow)


@pytest.mark.parametrize(("few", "many"), [(200, 2000), (2500, 25_000)], ids=["gathered", "copied together"])
def test_a_large_frame_costs_python_per_piece_and_not_per_record(few: int, many: int) -> None:
    # As many bytes, so that they go in as many pieces.
    size = 1_600_000

    def written(batch: Batch) -> Callable[[], object]:
        return lambda: [*frame_of([batch], **PLACE, now_ms=NOW_MS).pieces(streamed=True)]

    batches = [Batch.of([bytes(size // count)] * count) for count in (few, many)]
    check_as_many_steps(*map(written, batches))

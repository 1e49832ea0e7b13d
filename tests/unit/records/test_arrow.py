import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import Unavailable
from cordwood.records import Batch, BinaryColumn, StoredBatch, decode_frame
from cordwood.records.arrow import _Arrow, _arrow
from tests.support.records.batches import EVERYTHING, arguments, framed, made, same_examples, stored, windows

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


def expected(batch: Batch) -> dict[str, Any]:
    records = list(batch)
    pairs = [[{"key": name, "value": value} for name, value in record.headers] for record in records]
    return {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array(pairs, HEADERS),
        "timestamp": pa.array([record.timestamp for record in records], pa.timestamp("ms", tz="UTC")),
    }


@same_examples
@given(arguments(min_size=0), windows)
def test_a_batch_becomes_what_arrow_makes_of_its_lists(given: dict[str, Any], cut: slice) -> None:
    for batch in (made(given), made(given)[cut]):
        table = batch.to_arrow()
        table.validate(full=True)
        assert table == pa.RecordBatch.from_pydict(expected(batch))


@same_examples
@given(arguments(), windows)
def test_a_stored_batch_has_a_column_of_offsets_too(given: dict[str, Any], cut: slice) -> None:
    whole = stored(made(given))
    for batch in (whole, whole[cut]):
        table = batch.to_arrow()
        table.validate(full=True)
        offsets = pa.array([record.offset for record in batch], pa.int64())
        assert table == pa.RecordBatch.from_pydict({**expected(batch), "offset": offsets})


@same_examples
@given(st.lists(st.none() | st.binary(max_size=12), max_size=40))
def test_the_buffers_of_a_column_are_those_of_arrow(values: list[bytes | None]) -> None:
    theirs = pa.array(values, pa.binary()).buffers()
    for mine, other in zip(BinaryColumn.of(values).buffers(), theirs, strict=True):
        assert (mine is None) == (other is None) or not values
        if mine is not None and other is not None:
            assert bytes(other)[: mine.nbytes] == mine.tobytes()


@pytest.mark.parametrize("cut", [slice(None), slice(1, 3)])
def test_arrow_reads_keys_values_and_headers_where_the_frame_lies(cut: slice) -> None:
    frame = framed(EVERYTHING)
    source = pa.py_buffer(frame)
    table = decode_frame(frame)[cut].to_arrow()
    names_and_values = table.column("headers").values
    for column in (table.column("key"), table.column("value"), names_and_values, table.column("timestamp")):
        for buffer in column.buffers():
            if buffer is not None:
                assert source.address <= buffer.address
                assert buffer.address + buffer.size <= source.address + source.size


def test_arrow_keeps_the_frame_alive() -> None:
    table = decode_frame(bytes(bytearray(framed(EVERYTHING)))).to_arrow()
    assert table.column("value").to_pylist() == [b"value", None, b"", b"longer than eight bytes"]


def test_a_batch_of_lists_is_copied_once_and_then_shared() -> None:
    batch = Batch.of([b"a" * 100])
    source = pa.py_buffer(batch.values.buffers()[2])
    assert batch.to_arrow().column("value").buffers()[2].address == source.address


def test_without_pyarrow_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    _arrow.cache_clear()
    with pytest.raises(Unavailable, match=r"pip install 'cordwood\[arrow\]'") as caught:
        Batch.of([b"a"]).to_arrow()
    assert (caught.value.reason, caught.value.retryable) == ("missing-extra", False)


def test_offsets_are_those_of_the_batch_whatever_was_made_before_it() -> None:
    """Some are made ahead, for a reader that continues: not for another log, nor beyond the ones made."""
    rows = BinaryColumn.of([b""] * 3000)
    for first in (0, 3000, 6000, 7000, 9000, 2, 2**63 - 3000, 3000, 100_000):
        batch = StoredBatch.from_columns(range(first, first + 3000), rows, timestamps=1)
        assert batch.to_arrow().column("offset").to_pylist() == [*range(first, first + 3000)]
    many = StoredBatch.from_columns(range(5, 20_005), BinaryColumn.of([b""] * 20_000), timestamps=1)
    assert many.to_arrow().column("offset").to_pylist() == [*range(5, 20_005)]


class Interrupted:
    """pyarrow, in which a thread is interrupted while it makes what batches share, by another one that needs more."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.arrow = _Arrow(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(pa, name)

    def nulls(self, size: int, kind: Any) -> Any:
        count, self.count = (self.count, 0) if size > 8192 else (0, self.count)
        if count:
            self.convert(count)
        return pa.nulls(size, kind)

    def convert(self, count: int) -> None:
        batch = StoredBatch.from_columns(range(count), BinaryColumn.of([b"x"] * count), timestamps=1)
        assert self.arrow.record_batch(batch).num_rows == count


@pytest.mark.parametrize("meanwhile", [9_000, 19_000, 40_000])
def test_ever_larger_batches_become_arrow_on_several_threads_at_once(meanwhile: int) -> None:
    interrupted = Interrupted(meanwhile)
    interrupted.convert(10_000)
    assert not interrupted.count
    # Nor are the remaining buffers of unequal length, or smaller than before.
    assert {len(column) for column in interrupted.arrow.shared} == {2 * max(10_000, meanwhile)}
    interrupted.convert(2 * max(10_000, meanwhile))

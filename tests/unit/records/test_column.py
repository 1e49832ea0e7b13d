import pickle
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import TooLarge
from cordwood.records import BinaryColumn
from cordwood.records.column import row_offsets
from tests.support.records.batches import binary, same_examples, windows

columns = st.lists(binary, max_size=40)


@same_examples
@given(columns)
def test_a_column_gives_back_what_it_was_made_of(values: list[bytes | None]) -> None:
    column = BinaryColumn.of(values)
    assert list(column) == values
    assert [column[i] for i in range(len(values))] == values
    assert [column[-i] for i in range(1, len(values) + 1)] == values[::-1]
    assert column == values
    assert column == tuple(values)
    assert column == BinaryColumn.of(values)
    assert column.null_count == values.count(None)
    assert column.data_bytes == sum(len(value or b"") for value in values)


@same_examples
@given(columns, windows, windows)
def test_a_slice_of_a_slice_is_what_a_list_would_give(values: list[bytes | None], first: slice, second: slice) -> None:
    column = BinaryColumn.of(values)[first][second]
    expected = values[first][second]
    assert isinstance(column, BinaryColumn)
    assert list(column) == expected
    assert [column[i] for i in range(len(expected))] == expected
    assert column.null_count == expected.count(None)
    validity, offsets, data = column.compact()
    bitmap = None if validity is None else memoryview(validity)
    assert BinaryColumn(offsets, data, bitmap) == expected
    assert pickle.loads(pickle.dumps(column)) == expected


def test_a_slice_shares_the_buffers_and_copies_nothing() -> None:
    column = BinaryColumn.of([b"a" * 100, None, b"b" * 100, b"c"])
    part = column[1:3]
    assert part.start == 1
    for whole, shared in zip(column.buffers(), part.buffers(), strict=True):
        assert whole is shared
    assert part.nbytes == 100 + 4 * 3 + 1


def test_empty_bytes_and_none_differ() -> None:
    assert BinaryColumn.of([b""]) != BinaryColumn.of([None])
    assert BinaryColumn.of([b"", None]) == [b"", None]
    assert BinaryColumn.of([b""]) != [None]


def test_a_column_is_no_bytes_and_equals_none() -> None:
    assert BinaryColumn.of([]) != b""
    assert BinaryColumn.of([]) == []
    assert BinaryColumn.of([b"a"]) != [b"a", b"b"]


def test_entries_of_any_average_size_iterate_alike() -> None:
    for size in (0, 10, 255, 256, 257, 2000):
        values = [b"x" * size, b"y" * size, None, b"z"]
        assert list(BinaryColumn.of(values)) == values
        assert list(BinaryColumn.of(values)[1:]) == values[1:]


def test_the_buffers_are_those_of_arrow() -> None:
    validity, offsets, data = BinaryColumn.of([b"ab", None, b"", b"c"]).buffers()
    assert validity is not None
    assert bytes(validity) == bytes([0b1101])
    assert offsets.tolist() == [0, 2, 2, 2, 3]
    assert offsets.format == "i"
    assert bytes(data) == b"abc"


def test_the_buffers_cannot_be_written() -> None:
    for buffer in BinaryColumn.of([b"ab", None]).buffers():
        assert buffer is not None
        assert buffer.readonly


def test_a_column_of_nulls_has_nothing_but_nulls() -> None:
    column = BinaryColumn.nulls(11)
    assert list(column) == [None] * 11
    assert column.null_count == 11


@pytest.mark.parametrize("index", [3, -4, 100])
def test_an_index_outside_names_itself_and_the_length(index: int) -> None:
    with pytest.raises(IndexError, match=f"entry {index} of a column of 3"):
        BinaryColumn.of([b"a", b"b", b"c"])[index]


def test_a_repr_stays_short() -> None:
    assert repr(BinaryColumn.of([b"x" * 1000] * 1000)) == (
        "<BinaryColumn of 1000: " + ", ".join(["b'xxxxxxxxxxxxxxxx'… 1000 bytes"] * 3) + ", …>"
    )
    assert repr(BinaryColumn.of([])) == "<BinaryColumn of 0>"


def test_more_bytes_than_int32_can_count_are_too_large() -> None:
    chunk = bytes(2**20)
    with pytest.raises(TooLarge, match="2147483648 bytes; limit 2147483647"):
        row_offsets([chunk] * 2048, False)


def test_a_window_may_be_given_in_numbers() -> None:
    offsets = memoryview(array("i", [0, 1, 3, 6]))
    assert BinaryColumn(offsets, memoryview(b"abbccc"), None, 1) == [b"bb", b"ccc"]
    assert BinaryColumn(offsets, memoryview(b"abbccc"), None, 1, 1) == [b"bb"]


def test_a_column_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(BinaryColumn.of([]))

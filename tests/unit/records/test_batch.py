import copy
import pickle
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput
from cordwood.records import Batch, BinaryColumn, HeaderColumn, Record, StoredBatch, StoredRecord, frame_bytes
from tests.support.records.batches import EVERYTHING, arguments, framed, made, rows, same_examples, stored, windows


@same_examples
@given(arguments(min_size=0))
def test_a_batch_gives_back_what_it_was_made_of(given: dict[str, Any]) -> None:
    batch, expected = made(given), rows(given)
    assert len(batch) == len(expected)
    assert list(batch) == expected
    assert [batch[i] for i in range(len(expected))] == expected
    assert list(batch.values) == [row[0] for row in expected]
    assert list(batch.keys) == [row[1] for row in expected]
    assert list(batch.headers) == [row[2] for row in expected]
    assert batch.headers == [row[2] for row in expected]
    assert [batch.headers[i] for i in range(len(expected))] == [row[2] for row in expected]
    assert (None if batch.timestamps is None else batch.timestamps.tolist()) == given["timestamps"]
    assert list(batch) == expected  # and also once its lists have become columns


@same_examples
@given(arguments(min_size=0), st.booleans(), windows, windows)
def test_a_slice_of_a_batch_is_a_batch_of_those_records(
    given: dict[str, Any], as_columns: bool, first: slice, second: slice
) -> None:
    batch = made(given)
    if as_columns:
        assert batch.values is batch.values
        assert list(batch.keys) == list(batch.keys)
    part = batch[first][second]
    assert list(part) == rows(given)[first][second]


@same_examples
@given(arguments(), windows)
def test_a_slice_of_a_stored_batch_keeps_offsets_and_timestamps(given: dict[str, Any], window: slice) -> None:
    whole = stored(made(given))
    part = whole[window]
    assert type(part) is StoredBatch
    assert list(part) == list(whole)[window]
    assert [record.offset for record in part] == list(range(70, 70 + len(whole)))[window]


@same_examples
@given(arguments(min_size=0))
def test_batches_of_equal_records_are_equal_also_after_pickling(given: dict[str, Any]) -> None:
    batch = made(given)
    assert batch == made(given)
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert copy.deepcopy(batch) == batch
    if len(batch):
        kept = stored(batch)
        restored = pickle.loads(pickle.dumps(kept))
        assert type(restored) is StoredBatch
        assert restored == kept
        assert list(restored) == list(kept)
        assert restored != batch


def test_batches_that_differ_anywhere_are_not_equal() -> None:
    batches = [
        Batch.of([b"a"]),
        Batch.of([b"b"]),
        Batch.of([None]),
        Batch.of([b"a", b"a"]),
        Batch.of([b"a"], keys=[b""]),
        Batch.of([b"a"], headers=[[("h", None)]]),
        Batch.of([b"a"], timestamps=[1]),
    ]
    for i, one in enumerate(batches):
        for j, other in enumerate(batches):
            assert (one == other) is (i == j)
    assert stored(batches[0]) != stored(batches[0], first_offset=71)
    assert Batch.of([b"a"]) != [b"a"]
    assert Batch.of([b"a"], keys=[None], headers=[[]]) == Batch.of([b"a"])


def test_a_later_change_of_the_callers_lists_does_not_change_the_batch() -> None:
    values: list[bytes | None] = [b"a", b"b"]
    keys: list[bytes | None] = [b"k", None]
    pairs: list[tuple[str, bytes | None]] = [("h", b"1")]
    headers = [pairs, []]
    timestamps = array("q", [1, 2])
    batch = Batch.of(values, keys=keys, headers=headers, timestamps=timestamps)
    expected = [Record(b"a", b"k", (("h", b"1"),), 1), Record(b"b", None, (), 2)]
    values[0] = keys[0] = b"changed"
    values.append(b"more")
    pairs.append(("more", None))
    headers.clear()
    timestamps[0] = 99
    assert list(batch) == expected
    assert list(stored(batch)) == [(*row, 70 + i) for i, row in enumerate(expected)]


def test_columns_are_taken_as_they_are() -> None:
    column = BinaryColumn.of([b"a", None])
    headers = HeaderColumn.of([[("h", b"1")], []])
    batch = Batch.of(column, keys=column, headers=headers)
    assert batch.values is column
    assert batch.keys is column
    assert batch.headers is headers
    assert batch == Batch.of([b"a", None], keys=[b"a", None], headers=[[("h", b"1")], []])


def test_any_sequence_will_do() -> None:
    assert Batch.of((b"a", None)) == Batch.of([b"a", None])
    assert Batch.of([b"a"], timestamps=range(1)) == Batch.of([b"a"], timestamps=[0])
    again = Batch.of([b"a"], timestamps=Batch.of([b"a"], timestamps=[3]).timestamps)
    assert again.timestamps is not None
    assert again.timestamps.tolist() == [3]


class Token(bytes):
    pass


def test_a_subclass_of_bytes_is_stored_as_bytes() -> None:
    batch = Batch.of([Token(b"a"), None], keys=[Token(b"k"), None])
    assert [type(record.value) for record in batch] == [bytes, type(None)]
    assert stored(batch).keys == [b"k", None]


WRONG: Any = [
    ((b"bare",), {}, TypeError, "values: a sequence of bytes or None is needed, not bytes"),
    ((b"",), {}, TypeError, "values: a sequence of bytes or None is needed, not bytes"),
    (("text",), {}, TypeError, "values: a sequence of bytes or None is needed, not str"),
    ((bytearray(b"a"),), {}, TypeError, "not bytearray"),
    ((memoryview(b"a"),), {}, TypeError, "not memoryview"),
    ((5,), {}, TypeError, "values: a sequence of bytes or None is needed, not int"),
    (({b"a"},), {}, TypeError, "not set"),
    ((iter([b"a"]),), {}, TypeError, "not list_iterator"),
    (([b"a", "b"],), {}, TypeError, r"values\[1\]: bytes or None is needed, not str"),
    (([bytearray(b"a")],), {}, TypeError, r"values\[0\]: bytes or None is needed, not bytearray"),
    (([b"a"],), {"keys": b"k"}, TypeError, "keys: a sequence"),
    (([b"a"],), {"keys": [1]}, TypeError, r"keys\[0\]: bytes or None is needed, not int"),
    (([b"a"],), {"keys": []}, InvalidInput, "keys: 0 entries for 1 values"),
    (([b"a"],), {"keys": [None, None]}, InvalidInput, "keys: 2 entries for 1 values"),
    (([b"a"],), {"headers": "h"}, TypeError, "headers: a sequence of sequences"),
    (([b"a"],), {"headers": [None]}, TypeError, r"headers\[0\]: a sequence of pairs is needed, not NoneType"),
    (([b"a"],), {"headers": ["ab"]}, TypeError, r"headers\[0\]: a sequence of pairs is needed, not str"),
    (
        ([b"a"],),
        {"headers": [{"a": b""}]},
        TypeError,
        r"headers\[0\]: a sequence of pairs is needed, not dict",
    ),
    (([b"a"],), {"headers": [["ab"]]}, TypeError, r"headers\[0\]\[0\]: a tuple is needed, not str"),
    (([b"a"],), {"headers": [[5]]}, TypeError, r"headers\[0\]\[0\]: a tuple is needed, not int"),
    (
        ([b"a"],),
        {"headers": [[("a",)]]},
        InvalidInput,
        r"headers\[0\]\[0\]: \(name, value\) is needed, not 1",
    ),
    (
        ([b"a"],),
        {"headers": [[(b"a", b"")]]},
        TypeError,
        r"headers\[0\]\[0\]: the name must be str, not bytes",
    ),
    (([b"a"],), {"headers": [[("a", "b")]]}, TypeError, r"the value must be bytes or None, not str"),
    (([b"a"],), {"headers": [[("\ud800", b"")]]}, InvalidInput, "not valid Unicode"),
    (([b"a"],), {"headers": []}, InvalidInput, "headers: 0 entries for 1 values"),
    (([b"a"],), {"timestamps": 5}, TypeError, "timestamps: a sequence of int"),
    (([b"a"],), {"timestamps": [1.5]}, TypeError, r"timestamps\[0\]: int \(ms UTC\) is needed, not float"),
    (([b"a"],), {"timestamps": [True]}, TypeError, r"timestamps\[0\]: int \(ms UTC\) is needed, not bool"),
    (
        ([b"a"],),
        {"timestamps": [None]},
        TypeError,
        r"timestamps\[0\]: int \(ms UTC\) is needed, not NoneType",
    ),
    (([b"a"],), {"timestamps": [1, 2]}, InvalidInput, "timestamps: 2 entries for 1 values"),
    (([b"a", b"b"],), {"timestamps": [1, -1]}, InvalidInput, r"timestamps\[1\]: -1 ms; it must be from 0 to"),
    (([b"a"],), {"timestamps": [2**63]}, InvalidInput, rf"timestamps\[0\]: {2**63} ms.* to {2**63 - 1}"),
]


@pytest.mark.parametrize(("args", "kwargs", "error", "words"), WRONG)
def test_a_wrong_argument_is_refused_by_name(args: Any, kwargs: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        Batch.of(*args, **kwargs)


def test_offsets_of_a_stored_batch_may_have_gaps() -> None:
    batch = StoredBatch.from_columns(
        [3, 9], BinaryColumn.of([b"a", b"b"]), timestamps=[1, 2], keys=BinaryColumn.of([None, b"k"])
    )
    assert list(batch) == [StoredRecord(b"a", None, (), 1, 3), StoredRecord(b"b", b"k", (), 2, 9)]
    assert batch[-1].offset == 9
    assert batch[1:].offsets == [9]
    assert pickle.loads(pickle.dumps(batch)) == batch
    with pytest.raises(InvalidInput, match="offsets: 1 entries for 2 values"):
        StoredBatch.from_columns([3], BinaryColumn.of([b"a", b"b"]), timestamps=1)
    with pytest.raises(InvalidInput, match="-1 ms"):
        StoredBatch.from_columns([3], BinaryColumn.of([b"a"]), timestamps=-1)


def test_a_stored_record_is_a_record_with_an_offset() -> None:
    record = stored(EVERYTHING)[3]
    assert record == (b"longer than eight bytes", b"k", (), 6, 73)
    assert isinstance(record, Record)
    assert isinstance(record, StoredRecord)
    assert (record.value, record.key, record.headers, record.timestamp, record.offset) == tuple(record)
    assert record._replace(offset=5).offset == 5
    assert record._asdict()["offset"] == 73
    assert StoredRecord._make(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert repr(record).endswith("timestamp=6, offset=73)")
    match record:
        case StoredRecord(value, _, _, _, offset):
            assert (value, offset) == (b"longer than eight bytes", 73)


def test_a_repr_stays_short() -> None:
    assert repr(Batch.of([b"x" * 1000] * 1000, keys=[b"k"] * 1000)) == "<Batch of 1000: 1001000 bytes>"
    assert repr(stored(Batch.of([b"ab", None]))) == "<StoredBatch of 2 at range(70, 72): 2 bytes>"
    assert repr(EVERYTHING.headers) == "<HeaderColumn of 4: 3 headers>"


@pytest.mark.parametrize("index", [4, -5])
def test_an_index_outside_of_a_batch_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"record {index} of a batch of 4"):
        EVERYTHING[index]
    with pytest.raises(IndexError, match=f"record {index} of 4"):
        EVERYTHING.headers[index]
    with pytest.raises(IndexError, match=f"record {index} of a batch of 4"):
        stored(EVERYTHING)[index]


def test_neither_batches_nor_headers_have_a_hash() -> None:
    for thing in (EVERYTHING, EVERYTHING.headers, stored(EVERYTHING)):
        with pytest.raises(TypeError, match="unhashable"):
            hash(thing)


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ([b"a", b"b"], None),
        ([b"a", None, b""], [None, b"", b"k"]),
        ([None, None], [None, None]),
        ([b"", b""], [b"k", b"l"]),
    ],
)
def test_a_stored_batch_of_rows_is_that_of_their_columns(
    values: list[bytes | None], keys: list[bytes | None] | None
) -> None:
    count = len(values)
    headers = HeaderColumn.of([[("h", None)], *[[]] * (count - 1)])
    of_rows = StoredBatch.from_rows(range(count), values, keys=keys, headers=headers, timestamps=iter(range(count)))
    columns = StoredBatch.from_columns(
        range(count),
        BinaryColumn.of(values),
        keys=None if keys is None else BinaryColumn.of(keys),
        headers=headers,
        timestamps=range(count),
    )
    assert of_rows == columns
    assert (of_rows.weight, frame_bytes(of_rows)) == (columns.weight, frame_bytes(columns))
    assert list(of_rows) == list(columns)
    assert of_rows[1:] == columns[1:]
    for one, other in ((of_rows, columns), (of_rows[1:], columns[1:]), (pickle.loads(pickle.dumps(of_rows)), columns)):
        assert framed(one) == framed(other)


@pytest.mark.parametrize("kind", [Batch, StoredBatch])
def test_a_batch_is_made_by_of_alone(kind: type[Batch]) -> None:
    with pytest.raises(TypeError, match=r"use Batch\.of\(values\)"):
        kind()


@pytest.mark.parametrize("timestamps", [[-1], [-1, 5, -(2**63)]], ids=repr)
def test_a_stored_batch_without_timestamps_can_be_pickled_and_copied(timestamps: list[int]) -> None:
    batch = StoredBatch.from_rows([2, 5, 7][: len(timestamps)], [b"a"] * len(timestamps), timestamps=timestamps)
    for same in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert same == batch
        assert same.timestamps.tolist() == timestamps

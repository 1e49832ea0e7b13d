"""Event rows of a record: the columns of the table, and only the numbers that are asked for."""

from datetime import timedelta

import pytest

from cordwood.errors import Corrupt
from cordwood.journal.action import Append
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.event import Event
from cordwood.journal.record_rows import append_id_of, event_rows
from cordwood.journal.value import encode_value
from cordwood.store.rows import EventRow

EVENTS = [Event.json({"n": 1}, {"b", "a"}), Event.text("hi"), Event.binary(b"\x00"), Event.empty({"t"})]
OURS = Append(5, 8, "binary", "host", "0.1.0", None, 'c-"42"', 4)
VALUE = encode_value(EVENTS, 5, timedelta(hours=36), b'{"m":1.50}')[1]
METADATA = '{"header":{},"payload":{"expireAfter":"36 hours","data":{"m":1.50}},"id":"c-\\"42\\""}'


def test_the_rows_of_a_record_have_all_columns() -> None:
    rows, expire_after_ns = event_rows(OURS, VALUE, {"h": "v"}, 2, 17, 1_700_000_000_123, "f0", 0)
    shared = (1_700_000_000_123, 2, 17, "host", "0.1.0", "f0", METADATA)
    assert rows == [
        EventRow(5, *shared, "json", '{"n":1}', None, ("a", "b"), {"h": "v"}),
        EventRow(6, *shared, "text", "hi", None, None, {"h": "v"}),
        EventRow(7, *shared, "binary", None, b"\x00", None, {"h": "v"}),
        EventRow(8, *shared, None, None, None, ("t",), {"h": "v"}),
    ]
    assert expire_after_ns == 36 * 3600 * 10**9


def test_all_rows_of_a_record_share_one_metadata_text() -> None:
    rows, _ = event_rows(OURS, VALUE, None, 2, 17, 0, None, 0)
    assert len({id(row.metadata) for row in rows}) == 1


@pytest.mark.parametrize(("above", "numbers"), [(0, [5, 6, 7, 8]), (4, [5, 6, 7, 8]), (6, [7, 8]), (8, [])])
def test_only_events_above_a_number_have_rows(above: int, numbers: list[int]) -> None:
    rows, expire_after_ns = event_rows(OURS, VALUE, None, 2, 17, 0, None, above)
    assert [row.seq_nr for row in rows] == numbers
    assert expire_after_ns is not None


@pytest.mark.parametrize("headers", [None, {}])
def test_a_record_of_the_scala_library_has_no_id_and_may_have_nothing_else(headers: dict[str, str] | None) -> None:
    value = encode_value([Event.empty()], 1, None, None)[1]
    rows, expire_after_ns = event_rows(Append(1, 1), value, headers, 0, 0, 0, None, 0)
    assert rows == [EventRow(1, 0, 0, 0, None, None, None, '{"header":{},"payload":{}}', None)]
    assert expire_after_ns is None


def test_header_metadata_is_kept_as_it_was_written() -> None:
    value = encode_value([Event.empty()], 1, None, None)[1]
    ((row,), _) = event_rows(Append(1, 1, metadata=b'{"h": 1.50}'), value, None, 0, 0, 0, None, 0)
    assert row.metadata == '{"header":{"data":{"h": 1.50}},"payload":{}}'


@pytest.mark.parametrize(
    "append", [Append(5, 9, "binary"), Append(4, 8, "binary"), Append(5, 8, "json"), Append(5, 9, "binary", expected=4)]
)
def test_a_record_whose_events_do_not_match_its_header_is_bad(append: Append) -> None:
    with pytest.raises(BadRecord):
        event_rows(append, VALUE, None, 0, 0, 0, None, 0)


@pytest.mark.parametrize("data", ["1e999", "1e99999999999999999999", "9" * 5000, "[" * 900 + "1e999" + "]" * 900])
def test_the_id_of_a_row_needs_nothing_else_of_its_metadata(data: str) -> None:
    assert append_id_of(f'{{"header":{{}},"payload":{{"data":{data}}},"id":"c-42"}}') == "c-42"


@pytest.mark.parametrize("metadata", [None, "{}", "[]", '{"id":5}', '{"id":null}', '{"data":{"id":"x"}}'])
def test_foreign_metadata_has_no_append_id(metadata: str | None) -> None:
    assert append_id_of(metadata) is None


def test_metadata_that_is_not_json_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="cannot be decoded"):
        append_id_of("{")

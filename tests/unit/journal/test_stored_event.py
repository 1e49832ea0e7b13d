"""Stored events: every attribute comes from the row, and is decoded when it is asked for."""

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from cordwood.errors import Corrupt
from cordwood.journal.stored_event import StoredEvent
from cordwood.store.rows import EventRow

ROW = EventRow(
    seq_nr=3,
    timestamp=1_700_000_000_123,
    partition=2,
    offset=17,
    origin="host",
    version="10.1.0",
    life="f0",
    metadata='{"header":{"data":[1]},"payload":{"expireAfter":"1 day","data":{"m":1.5}},"id":"c-42"}',
    payload_type="json",
    payload_txt='{"price": 1.10, "big": 12345678901234567890123, "wide": 1e999}',
    tags=("b", "a"),
    headers={"h": "v"},
)


def changed(**fields: Any) -> StoredEvent:
    return StoredEvent(msgspec.structs.replace(ROW, **fields))


def test_an_event_has_the_values_of_its_row() -> None:
    event = StoredEvent(ROW)
    assert (event.seq_nr, event.kind, event.partition, event.offset) == (3, "json", 2, 17)
    assert event.payload == {"price": 1.1, "big": 12345678901234567890123, "wide": Decimal("1e999")}
    assert event.raw == (ROW.payload_txt or "").encode()
    assert event.tags == frozenset({"a", "b"})
    assert event.timestamp == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert (event.metadata, event.header_metadata, event.append_id) == ({"m": 1.5}, [1], "c-42")
    assert (event.headers, event.origin, event.version) == ({"h": "v"}, "host", "10.1.0")


@pytest.mark.parametrize("timestamp", [253_402_300_800_000, 2**63 - 1])
def test_a_time_after_the_year_9999_is_its_last_moment(timestamp: int) -> None:
    assert changed(timestamp=timestamp).timestamp == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("columns", "kind", "payload", "raw"),
    [
        ((None, None, None), None, None, b""),
        (("text", "é", None), "text", "é", "é".encode()),
        (("text", "", None), "text", "", b""),
        (("json", "null", None), "json", None, b"null"),
        (("binary", None, b"\x00"), "binary", b"\x00", b"\x00"),
        (("binary", None, b""), "binary", b"", b""),
        (("avro", None, b"\x01"), "binary", b"\x01", b"\x01"),
    ],
)
def test_a_payload_comes_from_its_column(
    columns: tuple[str | None, str | None, bytes | None], kind: str | None, payload: Any, raw: bytes
) -> None:
    event = changed(payload_type=columns[0], payload_txt=columns[1], payload_bin=columns[2])
    assert (event.kind, event.payload, event.raw) == (kind, payload, raw)


@pytest.mark.parametrize(
    ("text", "metadata", "header_metadata", "append_id"),
    [
        (None, None, None, None),
        ("{}", None, None, None),
        ('{"header":{},"payload":{}}', None, None, None),
        ('{"data":{"k":1}}', None, {"k": 1}, None),
        ('{"header":{"data":1},"payload":{"expireAfter":"1 day"}}', None, 1, None),
        ('{"header":{"data":1}}', None, 1, None),
        ('{"payload":{"data":[null]},"data":5}', [None], None, None),
        ('{"header":null,"payload":{"data":null},"id":null,"new":1}', None, None, None),
    ],
)
def test_metadata_is_read_in_every_form(
    text: str | None, metadata: Any, header_metadata: Any, append_id: str | None
) -> None:
    event = changed(metadata=text)
    assert (event.metadata, event.header_metadata, event.append_id) == (metadata, header_metadata, append_id)


def test_bad_json_in_a_row_is_corrupt_with_its_place() -> None:
    with pytest.raises(Corrupt, match=r"event 3 of 2@17: its payload cannot be decoded .*raw has its bytes"):
        _ = changed(payload_txt="{").payload
    for text in ("{", "[]"):
        with pytest.raises(Corrupt, match="event 3 of 2@17: its metadata cannot be decoded"):
            _ = changed(metadata=text).append_id


@pytest.mark.parametrize(
    "payload", ["1e99999999999999999999", '{"a":[-1e99999999999999999999]}', "[" * 2000 + "]" * 2000]
)
def test_json_that_python_cannot_hold_is_corrupt_and_kept(payload: str) -> None:
    event = changed(payload_txt=payload, metadata=f'{{"payload":{{"data":{payload}}}}}')
    with pytest.raises(Corrupt, match="raw has its bytes"):
        _ = event.payload
    with pytest.raises(Corrupt, match="its metadata cannot be decoded"):
        _ = event.metadata
    assert event.raw == payload.encode()
    assert str(event.seq_nr) in repr(event)


def test_events_are_equal_if_a_program_sees_no_difference() -> None:
    same = changed(tags=("a", "b"), life=None, metadata=(ROW.metadata or "").replace('":', '": '))
    assert StoredEvent(ROW) == same
    assert hash(StoredEvent(ROW)) == hash(same)
    assert changed(tags=None, headers=None) == changed(tags=(), headers={})
    differences: list[dict[str, Any]] = [
        {"seq_nr": 4}, {"timestamp": 1}, {"partition": 0}, {"offset": 18}, {"origin": None}, {"version": None},
        {"metadata": None}, {"payload_type": "text"}, {"payload_txt": "{}"}, {"tags": ("a",)}, {"headers": None},
    ]  # fmt: skip
    assert [each for each in differences if changed(**each) == StoredEvent(ROW)] == []
    assert StoredEvent(ROW) != ROW


def test_an_event_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(StoredEvent(ROW))) == StoredEvent(ROW)


def test_headers_are_a_copy() -> None:
    event = StoredEvent(ROW)
    event.headers["h"] = "changed"
    assert event.headers == {"h": "v"}


def test_an_event_shows_itself_in_short() -> None:
    assert repr(changed(payload_txt="1")) == "<StoredEvent 3 json b'1', tags={'a', 'b'} of 2@17>"
    assert repr(changed(payload_type=None, tags=None)) == "<StoredEvent 3 empty b'' of 2@17>"
    assert "… 5,000 bytes" in repr(changed(payload_type="text", payload_txt="x" * 5000))

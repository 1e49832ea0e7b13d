"""Values: byte for byte those of the Scala library, payloads as they were written, and a reason for every bad one."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput
from cordwood.journal.action import Append
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.decoded_value import DecodedEvent
from cordwood.journal.event import Event
from cordwood.journal.json_fields import SEQ_NR_MAX
from cordwood.journal.value import check_numbers, decode_value, encode_value

# One event, 1, with the tags t1 and t2 and the payload 00ff10, no metadata.
BINARY = bytes.fromhex(
    "01 00000001 00000020 0000000000000001 0000000c 00000002 7431 00000002 7432 01 00000003 00ff10 7b7d"
)
EMPTY = bytes.fromhex("01 00000001 0000001b 0000000000000001 0000000a 00000001 30 00000001 31 00 00000000 7b7d")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
tag_sets = st.frozensets(texts, max_size=5)
documents = st.sampled_from(['{"a":1}', "1.50", "12345678901234567890.1230", '"é\\u0001"', "[1e999, null ]", "false"])
events = st.one_of(
    st.builds(Event.binary, st.binary(max_size=20), tag_sets),
    st.builds(Event.json_bytes, documents.map(str.encode), tag_sets),
    st.builds(Event.text, texts, tag_sets),
    st.builds(Event.empty, tag_sets),
)
durations = st.none() | st.timedeltas(timedelta(0), timedelta(days=100))


def payload_of(event: Event) -> bytes | str | None:
    if event.kind is None:
        return None
    return event.raw if event.kind == "binary" else event.raw.decode()


def decoded(events: Sequence[Event], first: int) -> list[tuple[Any, ...]]:
    return [(seq_nr, event.tags, event.kind, payload_of(event)) for seq_nr, event in enumerate(events, first)]


@given(st.lists(events, min_size=1, max_size=6), st.integers(1, SEQ_NR_MAX - 6), durations, st.none() | documents)
def test_a_value_is_read_as_it_was_written(
    events: list[Event], first: int, expire_after: timedelta | None, data: str | None
) -> None:
    payload_type, value = encode_value(events, first, expire_after, None if data is None else data.encode())
    assert payload_type == ("binary" if any(event.kind == "binary" for event in events) else "json")
    read = decode_value(payload_type, value)
    assert [(each.seq_nr, frozenset(each.tags), each.kind, each.payload) for each in read.events] == decoded(
        events, first
    )
    assert read.expire_after_ns == (None if expire_after is None else expire_after // timedelta(microseconds=1) * 1000)
    assert read.metadata.endswith("}" if data is None else f'"data":{data}}}')
    check_numbers(Append(first, first + len(events) - 1, expected=first - 1), read.events)


def test_json_values_have_these_bytes() -> None:
    payload = '{"a":1,"b":null,"c":[true,1.5,"é\\u0001",12345678901234567890.123],"d":{}}'
    events = [Event.json_bytes(payload.encode(), {"a"}), Event.text('тест "q" \u2028 \n / <x>'), Event.empty()]
    expected = (
        f'{{"events":[{{"seqNr":5,"tags":["a"],"payloadType":"json","payload":{payload}}},'
        '{"seqNr":6,"tags":[],"payloadType":"text","payload":"тест \\"q\\" \u2028 \\n / <x>"},{"seqNr":7,"tags":[]}],'
        '"metadata":{"expireAfter":"1 day","data":{"k":"v","n":1}}}'
    )
    assert encode_value(events, 5, timedelta(days=1), b'{"k":"v","n":1}') == ("json", expected.encode())
    read = decode_value("json", expected.encode())
    assert [event.payload for event in read.events] == [payload, 'тест "q" \u2028 \n / <x>', None]
    assert read.metadata == '{"expireAfter":"1 day","data":{"k":"v","n":1}}'


def test_a_json_null_is_written_as_such_and_read_as_no_payload() -> None:
    value = b'{"events":[{"seqNr":1,"tags":[],"payloadType":"json","payload":null}],"metadata":{}}'
    assert encode_value([Event.json(None)], 1, None, None) == ("json", value)
    assert decode_value("json", value).events == [DecodedEvent(1, (), None, None)]


def test_binary_values_have_these_bytes() -> None:
    assert encode_value([Event.binary(b"\x00\xff\x10", {"t1", "t2"})], 1, None, None) == ("binary", BINARY)
    assert decode_value("binary", BINARY).events == [DecodedEvent(1, ("t1", "t2"), "binary", b"\x00\xff\x10")]


def test_a_json_null_survives_next_to_a_binary_event() -> None:
    payload_type, value = encode_value([Event.json(None), Event.binary(b"")], 1, None, None)
    assert [(each.kind, each.payload) for each in decode_value(payload_type, value).events] == [
        ("json", "null"),
        ("binary", b""),
    ]


@pytest.mark.parametrize("metadata", [b"", b"{", b"5", b'{"expireAfter":"1 week"}', b'{"data":"\xff"}', b"{} x"])
def test_metadata_of_a_binary_value_that_cannot_be_read_is_lost(metadata: bytes) -> None:
    read = decode_value("binary", EMPTY[:-2] + metadata)
    assert (read.events, read.expire_after_ns, read.metadata) == (
        [DecodedEvent(1, ("0", "1"), None, None)],
        None,
        "{}",
    )


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_versions_have_events_and_no_metadata(version: int) -> None:
    for rest in (b"", b'{"expireAfter":"1 day"}'):
        read = decode_value("binary", bytes([version]) + EMPTY[1:-2] + rest)
        assert (len(read.events), read.expire_after_ns, read.metadata) == (1, None, "{}")


def test_bytes_after_the_payload_inside_an_event_are_ignored() -> None:
    longer = EMPTY[:5] + bytes.fromhex("0000001e") + EMPTY[9:-2] + b"new" + b'{"data":1}'
    read = decode_value("binary", longer)
    assert (read.events[0].tags, read.metadata) == (("0", "1"), '{"data":1}')


@pytest.mark.parametrize("size", range(len(BINARY) - 2))
def test_a_binary_value_that_is_cut_off_is_bad(size: int) -> None:
    with pytest.raises(BadRecord, match=r"cut off|ends before its events"):
        decode_value("binary", BINARY[:size])


@pytest.mark.parametrize(
    ("at", "replacement", "reason"),
    [
        (1, "00000000", "the value has 0 events"),
        (1, "ffffffff", "the value has -1 events"),
        (1, "7fffffff", "event 1 of the value is cut off"),
        (5, "80000000", "event 0 of the value is cut off"),
        (5, "00000010", "event 0 of the value is cut off"),
        (9, "0000000000000000", "the number of event 0 of the value is 0"),
        (9, "ffffffffffffffff", "the number of event 0 of the value is -1"),
        (17, "ffffffff", "the tags of event 0 of the value are cut off"),
        (17, "00000011", "the tags of event 0 of the value are cut off"),
        (21, "ffffffff", "a tag of event 0 of the value is cut off"),
        (27, "00000003", "a tag of event 0 of the value is cut off"),
        (25, "ff", "a tag of event 0 of the value is not UTF-8"),
        (33, "04", "the payload of event 0 of the value has the unknown kind 4"),
        (33, "02", "the payload of event 0 of the value is not json"),
        (33, "0200000003747275", "the payload of event 0 of the value is not json"),
        (33, "03", "the payload of event 0 of the value is not text"),
        (34, "ffffffff", "the payload of event 0 of the value is cut off"),
        (34, "00000004", "the payload of event 0 of the value is cut off"),
    ],
)
def test_a_bad_binary_value_has_a_reason(at: int, replacement: str, reason: str) -> None:
    new = bytes.fromhex(replacement)
    with pytest.raises(BadRecord, match=reason):
        decode_value("binary", BINARY[:at] + new + BINARY[at + len(new) :])


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ('{"seqNr":1,"tags":[],"payload":null}', (1, (), None, None)),
        ('{"seqNr":1,"tags":["a"],"payloadType":null,"payload":null}', (1, ("a",), None, None)),
        ('{"seqNr":1,"tags":[],"payloadType":"text"}', (1, (), None, None)),
        ('{"seqNr":1,"tags":[],"payload":{"x": 1.50}}', (1, (), "json", '{"x": 1.50}')),
        ('{"new":[1e999],"seqNr":1,"tags":[],"payload":5}', (1, (), "json", "5")),
        ('{"seqNr":1.0,"tags":["b","a","b"],"payloadType":"text","payload":"\\u0041"}', (1, ("b", "a"), "text", "A")),
        ('{"seqNr":9007199254740993.0,"tags":[],"payload":[1.0]}', (2**53 + 1, (), "json", "[1.0]")),
        ('{"seqNr":1,"tags":["a","a"]}', (1, ("a",), None, None)),
    ],
)
def test_an_event_is_read_by_the_rules_of_the_scala_library(event: str, expected: tuple[Any, ...]) -> None:
    for value in (f'{{"events":[{event}]}}', f' {{"x":{{}}, "metadata":null, "events" : [ {event} ] }} '):
        read = decode_value("json", value.encode())
        assert [(each.seq_nr, each.tags, each.kind, each.payload) for each in read.events] == [expected]
        assert (read.expire_after_ns, read.metadata) == (None, "{}")


@pytest.mark.parametrize(
    ("metadata", "ns", "text"),
    [
        ("{}", None, "{}"),
        ("null", None, "{}"),
        ('{"expireAfter":null,"data":null}', None, "{}"),
        ('{"expireAfter":1500}', 1_500_000_000, '{"expireAfter":"1500 milliseconds"}'),
        ('{"expireAfter":1000.0}', 10**9, '{"expireAfter":"1 second"}'),
        (
            '{"data": [1.50, "é"], "new":1, "expireAfter":"24 hours"}',
            86_400 * 10**9,
            '{"expireAfter":"1 day","data":[1.50, "é"]}',
        ),
    ],
)
def test_metadata_is_kept_as_the_scala_library_stores_it(metadata: str, ns: int | None, text: str) -> None:
    for seq_nr in ("1", "1.0"):
        value = f'{{"events":[{{"seqNr":{seq_nr},"tags":[]}}],"metadata":{metadata}}}'
        read = decode_value("json", value.encode())
        assert (read.expire_after_ns, read.metadata) == (ns, text)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value is not JSON"),
        (b"xx", "the value is not JSON"),
        (b"[]", "the value is JSON, but not an object"),
        (b"{}", "the value's events is not an array"),
        (b'{"events":null}', "the value's events is not an array"),
        (b'{"events":[]}', "the value has no events"),
        (b'{"events":[1]}', "event 0 of the value is not an object"),
        (b'{"events":[{"tags":[]}]}', "event 0 of the value has no seqNr"),
        (b'{"events":[{"seqNr":0,"tags":[]}]}', "the seqNr of event 0 of the value is 0, not in 1"),
        (b'{"events":[{"seqNr":"1","tags":[]}]}', "the seqNr of event 0 of the value is '1', not a number"),
        (b'{"events":[{"seqNr":1}]}', "the tags of event 0 of the value are not an array of text"),
        (b'{"events":[{"seqNr":1,"tags":null}]}', "the tags of event 0 of the value are not an array of text"),
        (b'{"events":[{"seqNr":1,"tags":[1]}]}', "the tags of event 0 of the value are not an array of text"),
        (b'{"events":[{"seqNr":1,"tags":["\xff"]}]}', "the tags of event 0 of the value cannot be read"),
        (b'{"events":[{"seqNr":1,"tags":[],"payload":"\xff"}]}', "the payload of event 0 of the value is not UTF-8"),
        (b'{"events":[{"seqNr":1,"tags":[],"payloadType":"binary"}]}', "is 'binary', not 'json' or 'text'"),
        (b'{"events":[{"seqNr":1,"tags":[],"payloadType":"text","payload":5}]}', "is not text, but its payloadType is"),
        (b'{"events":[{"seqNr":1,"tags":[],"payloadType":"text","payload":"\xff"}]}', "the payload of event 0"),
        (b'{"events":[{"seqNr":1,"tags":[],"payload":tru}]}', "the value is not JSON"),
        (b'{"events":[{"seqNr":1,"tags":[]}],"metadata":5}', "the value's metadata cannot be read"),
        (b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{"expireAfter":"1 week"}}', "expireAfter is '1 week'"),
        (b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{"expireAfter":1.5}}', "not whole milliseconds"),
        (b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{"data":"\xff"}}', "the value's metadata cannot be read"),
        (b'{"events":' + b"[" * 5000 + b"]" * 5000 + b"}", "the value is not JSON: maximum recursion"),
    ],
)
def test_a_bad_json_value_has_a_reason(value: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        decode_value("json", value)


@given(st.sampled_from(["json", "binary"]), st.binary(max_size=60), st.integers(0, len(BINARY)))
def test_random_bytes_are_bad_or_events(payload_type: str, noise: bytes, at: int) -> None:
    for value in (noise, BINARY[:at] + noise + BINARY[at:], BINARY[:at] + noise):
        try:
            assert decode_value(payload_type, value).events
        except BadRecord:
            pass


def test_a_value_has_events_and_numbers_in_range() -> None:
    with pytest.raises(InvalidInput, match="has no events"):
        encode_value([], 1, None, None)
    encode_value([Event.empty(), Event.binary(b"")], SEQ_NR_MAX - 1, None, None)
    for first in (0, SEQ_NR_MAX):
        with pytest.raises(InvalidInput, match="are not in 1"):
            encode_value([Event.empty(), Event.empty()], first, None, None)


@pytest.mark.parametrize(
    ("append", "numbers", "reason"),
    [
        (Append(1, 3), [1, 2, 3], None),
        (Append(3, 9), [3, 9], None),
        (Append(1, 3, expected=0), [1, 2, 3], None),
        (Append(3, 9, expected=2), [3, 9], "the range is 3 to 9, but the value has 2 events"),
        (Append(1, SEQ_NR_MAX, expected=0), [1, SEQ_NR_MAX], "but the value has 2 events"),
        (Append(1, 3), [2, 3], "the events are 2 to 3, and the range is 1 to 3"),
        (Append(1, 3), [1, 2], "the events are 1 to 2, and the range is 1 to 3"),
        (Append(1, 3), [1, 2, 2, 3], "event 2 follows event 2"),
        (Append(1, 4), [1, 3, 2, 4], "event 2 follows event 3"),
        (Append(1, 3, expected=0), [1, 1, 3], "event 1 follows event 1"),
        (Append(1, 3), [1, 9, 3], "event 3 follows event 9"),
    ],
)
def test_events_match_the_range_of_their_append(append: Append, numbers: list[int], reason: str | None) -> None:
    events = [DecodedEvent(number, (), None, None) for number in numbers]
    if reason is None:
        check_numbers(append, events)
    else:
        with pytest.raises(BadRecord, match=reason):
            check_numbers(append, events)


@pytest.mark.parametrize("event", [Event.empty, lambda tags: Event.binary(b"", tags)], ids=["json", "binary"])
def test_tags_are_written_in_their_order(event: Callable[[list[str]], Event]) -> None:
    tags = [f"tag-{number}" for number in range(10)]
    (read,) = decode_value(*encode_value([event(tags[::-1])], 1, None, None)).events
    assert read.tags == tuple(tags)

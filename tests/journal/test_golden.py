"""Every golden file of the Scala library kafka-journal: files of its repository, and files that it has written."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cordwood.journal.action import Action, Append, Delete, Mark, Purge
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.binary_value import encode_binary_value
from cordwood.journal.decoded_value import DecodedValue
from cordwood.journal.duration import decode_duration, encode_duration
from cordwood.journal.event import Event
from cordwood.journal.header import decode_header, encode_header
from cordwood.journal.json_value import encode_json_value
from cordwood.journal.key import encode_id
from cordwood.journal.record_rows import event_rows
from cordwood.journal.scala_folds import (
    AppendBatch,
    Batch,
    DeleteBatch,
    HeadAppend,
    HeadDelete,
    HeadEmpty,
    HeadInfo,
    PurgeBatch,
    scala_batches,
    scala_head,
)
from cordwood.journal.stored_event import StoredEvent
from cordwood.journal.value import check_numbers, decode_value, encode_value
from cordwood.log.partitioning import murmur2, partition_of
from cordwood.store.rows import EventRow
from cordwood.store.segments import head_segments, java_hash, segment_of

METADATA = {"expireAfter": "1 day", "data": {"key": "value"}}


def test_a_golden_file_holds(golden: Path, golden_file: str) -> None:
    checks = [check for pattern, check in CHECKS.items() if re.fullmatch(pattern, golden_file)]
    assert len(checks) == 1, "every file has one check"
    checks[0](golden / golden_file)


# --- files of the library's repository


def check_header(path: Path) -> None:
    expected = json.loads(path.read_bytes())
    action = decode_header(path.read_bytes())
    assert action is not None
    if "legacy" in path.name:
        expected["append"]["metadata"] = {}  # the first versions wrote none
    assert json.loads(encode_header(action)) == expected
    assert decode_header(encode_header(action)) == action


def check_json_value(path: Path) -> None:
    value = path.read_bytes()
    read = decode_value("json", value)
    again = encode_json_value(events_of(read), 1, metadata_of(read))
    expected = json.loads(value)
    expected.setdefault("metadata", {})
    assert json.loads(again) == expected
    check_example(read, path.name)


def check_binary_value(path: Path) -> None:
    value = path.read_bytes()
    read = decode_value("binary", value)
    again = encode_binary_value(events_of(read), 1, metadata_of(read))
    if "v0" in path.name:
        again = b"\0" + again[1 : -len(metadata_of(read))]
    if len(read.events[-1].tags) <= 4:
        assert again == value
    else:  # Scala's sets keep the order of up to four elements
        assert len(again) == len(value)
        assert decode_value("binary", again).metadata == read.metadata
        assert events_of(decode_value("binary", again)) == events_of(read)
    check_example(read, path.name)


def check_example(read: DecodedValue, name: str) -> None:
    """The examples: event n has the tags "0" to "n"; the values with metadata have that of `METADATA`."""
    assert [event.seq_nr for event in read.events] == list(range(1, len(read.events) + 1))
    for event in read.events:
        assert set(event.tags) == {str(tag) for tag in range(event.seq_nr + 1)}
    assert json.loads(read.metadata) in ({}, METADATA)  # the files of JSON values are pretty-printed
    assert read.expire_after_ns == (None if read.metadata == "{}" else 86_400 * 10**9)
    kinds = [event.kind for event in read.events]
    if "empty-binary-text-json" in name:
        assert kinds == [None, "binary", "text", "json"]
        assert [event.payload for event in read.events] == [None, b"binary", "text", '"json"']
    else:
        (kind,) = set(kinds)
        assert (kind or "empty") in name


def check_payload(path: Path) -> None:
    """A payload of the library's plugin for Akka and Pekko: for a journal it is a payload like any other."""
    raw = path.read_bytes()
    event = Event.binary(raw) if path.suffix == ".bin" else Event.json_bytes(raw)
    payload_type, value = encode_value([event], 1, None, None)
    (read,) = events_of(decode_value(payload_type, value))
    assert read == event


def events_of(read: DecodedValue) -> list[Event]:
    events = []
    for each in read.events:
        payload = each.payload
        raw = b"" if payload is None else payload if isinstance(payload, bytes) else payload.encode()
        events.append(Event(each.kind, raw, frozenset(each.tags)))
    return events


def metadata_of(read: DecodedValue) -> bytes:
    return read.metadata.encode()


# --- records that the library has written


def check_records(path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    for record in golden["records"]:
        check_record(record)
    check_payload_columns(golden["eventual"])
    check_durations(golden["durations"], golden["durationParse"])
    for text in golden["recordMetadataText"]:
        check_metadata_text(text)
    for each in golden["metaSegments"]:
        assert java_hash(each["id"].lower()) == each["javaHashOfLower"]
        assert head_segments(each["id"]) == (each["segment10000"], each["segment100"])
        key = encode_id(each["id"]) if each["id"] else b""
        assert murmur2(key) & 0x7FFFFFFF == each["murmur2positive"]
        assert partition_of(key, 8) == each["partitionOf8"]
    for each in golden["journalSegments"]:
        assert segment_of(each["seqNr"], each["size"]) == each["segment"]


def check_record(record: dict[str, Any]) -> None:
    header = bytes.fromhex(record["headers"][0]["hex"])
    action = decode_header(header)
    assert action is not None
    assert encode_header(action) == header
    if not isinstance(action, Append):
        assert record["valueHex"] is None
        return
    value = bytes.fromhex(record["valueHex"])
    read = decode_value(action.payload_type, value)
    check_numbers(action, read.events)
    events = events_of(read)
    if "null-payload" in record["name"]:
        assert events == [Event.empty()]
        events = [Event.json(None)]
    if "gap" in record["name"]:
        assert [each.seq_nr for each in read.events] == [3, 9]
        again = b",".join(encode_json_value([event], each.seq_nr, b"{}")[11:-16] for event, each in
                          zip(events, read.events, strict=True))  # fmt: skip
        assert b'{"events":[%b],"metadata":{}}' % again == value
        return
    data = json_field(read.metadata, "data")
    expire_after = None if read.expire_after_ns is None else timedelta(microseconds=read.expire_after_ns // 1000)
    assert encode_value(events, action.first, expire_after, data) == (action.payload_type, value)


def check_payload_columns(columns: list[dict[str, Any]]) -> None:
    for each in columns:
        kind, text, binary = each["payload_type"], each["payload_txt"], each["payload_bin_hex"]
        payload = bytes.fromhex(binary) if text is None else text.encode()
        value = encode_binary_value([Event(kind, payload)], 1, b"{}")
        ((row,), _) = event_rows(Append(1, 1, "binary"), value, None, 0, 0, 0, None, 0)
        assert (row.payload_type, row.payload_txt) == (kind, text)
        assert row.payload_bin == (None if binary is None else payload)


def check_durations(written: list[dict[str, Any]], parsed: list[dict[str, Any]]) -> None:
    for each in written:
        assert decode_duration(each["json"]) == each["nanos"]
        largest = encode_duration(each["nanos"])
        if each["json"] in ("24 hours", "0 seconds"):  # Scala keeps the unit that the caller chose
            assert largest in ("1 day", "0 days")
        else:
            assert largest == each["json"]
    for each in parsed:
        if each["nanos"] is None:
            with pytest.raises(BadRecord):
                decode_duration(each["in"])
        else:
            assert decode_duration(each["in"]) == each["nanos"]


def check_metadata_text(text: str) -> None:
    header, payload = (json_field(text, name) or b"" for name in ("header", "payload"))
    value = b'{"events":[{"seqNr":1,"tags":[]}],"metadata":%b}' % payload
    append = Append(1, 1, metadata=json_field(header.decode(), "data"))
    ((row,), _) = event_rows(append, value, None, 0, 0, 0, None, 0)
    assert row.metadata == text


def json_field(text: str, name: str) -> bytes | None:
    raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get(name)
    return None if raw is None else bytes(raw)


# --- rows that the library's replicator has written


def check_rows(path: Path) -> None:
    tables = {"journal": check_event_row, "metajournal": check_head_row, "pointer2": None, "setting": None}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    assert lines
    for line in lines:
        _, table, columns = line.split(" ", 2)
        check = tables[table]
        if check is not None:
            check(json.loads(columns))


def check_head_row(columns: dict[str, Any]) -> None:
    assert columns["segment"] == head_segments(columns["id"]).now


def check_event_row(columns: dict[str, Any]) -> None:
    binary = None if columns["payload_bin"] is None else bytes.fromhex(columns["payload_bin"].removeprefix("0x"))
    written = EventRow(
        columns["seq_nr"],
        round(datetime.fromisoformat(columns["timestamp"]).timestamp() * 1000),
        columns["partition"],
        columns["offset"],
        columns["origin"],
        columns["version"],
        columns["meta_record_id"],
        columns["metadata"],
        columns["payload_type"],
        columns["payload_txt"],
        binary,
        None if columns["tags"] is None else tuple(columns["tags"]),
        columns["headers"],
    )
    event = StoredEvent(written)
    first = event.seq_nr
    payload = json_field(columns["metadata"], "payload") or b""
    kind, value = encode_value([Event(event.kind, event.raw, event.tags)], first, None, None)
    value = value.removesuffix(b"{}" if kind == "binary" else b"{}}") + payload + (b"" if kind == "binary" else b"}")
    header_data = json_field((json_field(columns["metadata"], "header") or b"").decode(), "data")
    append = Append(first, first, kind, event.origin, event.version, header_data)
    place = (event.partition, event.offset, written.timestamp)
    assert event_rows(append, value, columns["headers"], *place, written.life, 0)[0] == [written]
    assert segment_of(first, 10_000) == columns["segment"]


# --- records that the library has read; the file has names and outcomes, and these are records for the names

EDGES: dict[str, bytes] = {
    "JSON null payload": b'{"events":[{"seqNr":1,"tags":[],"payloadType":"json","payload":null}],"metadata":{}}',
    "JSON circe nulls": b'{"events":[{"seqNr":1,"tags":["a"],"payloadType":null,"payload":null}],'
    b'"metadata":{"expireAfter":null,"data":null}}',
    "JSON metadata null": b'{"events":[{"seqNr":1,"tags":[]}],"metadata":null}',
    "JSON missing tags": b'{"events":[{"seqNr":1}]}',
    "JSON no payloadType": b'{"events":[{"seqNr":1,"tags":[],"payload":{"x":1}}]}',
    "JSON extra fields": b'{"a":1,"events":[{"seqNr":1,"tags":[],"payload":5,"b":2}],"metadata":{"c":3}}',
    "JSON seqNr 0": b'{"events":[{"seqNr":0,"tags":[]}]}',
    "JSON empty events": b'{"events":[]}',
    "JSON seqNr as 1.0": b'{"events":[{"seqNr":1.0,"tags":[]}]}',
    "JSON seqNr as string": b'{"events":[{"seqNr":"1","tags":[]}]}',
    "JSON expireAfter number": b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{"expireAfter":1500}}',
    "JSON dup tags": b'{"events":[{"seqNr":1,"tags":["a","a"]}]}',
    "BIN v1 ok": bytes.fromhex(
        "01 00000001 0000001b 0000000000000001 0000000a 00000001 30 00000001 31 00 00000000 7b7d"
    ),
    "HDR unknown action": b'{"unknown":{}}',
    "HDR two actions": b'{"delete":{"to":1},"append":{"range":{"from":1,"to":2},"payloadType":"json","metadata":{}}}',
    "HDR append no metadata": b'{"append":{"range":{"from":1,"to":2},"payloadType":"binary"}}',
    "HDR append text type": b'{"append":{"range":{"from":1,"to":2},"payloadType":"text","metadata":{}}}',
    "HDR append metadata string": b'{"append":{"range":{"from":1,"to":2},"payloadType":"json","metadata":"x"}}',
    "HDR append from>to": b'{"append":{"range":{"from":3,"to":2},"payloadType":"json","metadata":{}}}',
    "HDR origin null": b'{"delete":{"to":3,"origin":null}}',
    "HDR purge": b'{"purge":{}}',
    "HDR purge null": b'{"purge":null}',
    "HDR not json": b"xx",
    "HDR empty": b"",
    "META legacy": b'{"data":{"k":1}}',
    "META empty": b"{}",
    "META new": b'{"header":{"data":1},"payload":{"expireAfter":"1 day"}}',
    "META only header": b'{"header":{"data":1}}',
}
_V1 = EDGES["BIN v1 ok"]
EDGES |= {
    "BIN v1 broken metadata": _V1[:-1],
    "BIN v1 no metadata bytes": _V1[:-2],
    "BIN v2 trailing": b"\2" + _V1[1:],
    "BIN v0 trailing": b"\0" + _V1[1:],
    "BIN truncated": _V1[:26],
    "BIN bad discriminator 4": _V1[:31] + b"\4" + _V1[32:],
    "BIN empty list": bytes.fromhex("0100000000") + b"{}",
}


def check_edges(path: Path) -> None:
    lines = re.findall(r"^(JSON|BIN|HDR|META) +(.*?) => (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert {f"{kind} {name}" for kind, name, _ in lines} == set(EDGES)
    for kind, name, outcome in lines:
        record = EDGES[f"{kind} {name}"]
        expected = "ERR" if outcome.startswith("ERR") else outcome
        assert read_as_scala_prints(kind, record) == expected, f"{kind} {name}"


def read_as_scala_prints(kind: str, record: bytes) -> str:
    try:
        match kind:
            case "HDR":
                return print_action(decode_header(record))
            case "META":
                return print_metadata(record)
            case _:
                return print_value(decode_value("json" if kind == "JSON" else "binary", record))
    except BadRecord:
        return "ERR"


def print_option(value: object) -> str:
    return "None" if value is None else f"Some({value})"


def print_value(read: DecodedValue) -> str:
    events = [
        f"Event({event.seq_nr},Set({', '.join(event.tags)}),"
        + ("None" if event.kind is None else f"Some({event.kind.title()}({event.payload!s}))")
        + ")"
        for event in read.events
    ]
    return f"Events(NonEmptyList({', '.join(events)}),{print_payload_metadata(read.metadata)})"


def print_payload_metadata(text: str) -> str:
    metadata = json.loads(text)
    return f"PayloadMetadata({print_option(metadata.get('expireAfter'))},{print_option(metadata.get('data'))})"


def print_action(action: Action | None) -> str:
    match action:
        case None:
            return "None"
        case Append():
            numbers, kind = f"{action.first}..{action.last}", action.payload_type.title()
            metadata = None if action.metadata is None else action.metadata.decode()
            shared = f"{print_option(action.origin)},{print_option(action.version)}"
            return f"Some(Append({numbers},{shared},{kind},HeaderMetadata({print_option(metadata)})))"
        case Delete():
            return f"Some(Delete({action.to},{print_option(action.origin)},{print_option(action.version)}))"
        case Purge():
            return f"Some(Purge({print_option(action.origin)},{print_option(action.version)}))"
        case Mark():
            return f"Some(Mark({action.id},{print_option(action.origin)},{print_option(action.version)}))"


def print_metadata(record: bytes) -> str:
    event = StoredEvent(EventRow(1, 0, 0, 0, None, None, None, record.decode(), None))
    header = None if event.header_metadata is None else json.dumps(event.header_metadata, separators=(",", ":"))
    payload = (json_field(record.decode(), "payload") or b"{}").decode()
    return f"JsSuccess(RecordMetadata(HeaderMetadata({print_option(header)}),{print_payload_metadata(payload)}),)"


# --- lists of actions that the library has folded


def check_folds(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1500
    for line in lines:
        case = json.loads(line)
        records = [golden_record(*each) for each in case["in"]]
        assert [batch_as_json(batch) for batch in scala_batches(records)] == case["batch"], line
        assert head_as_json(scala_head(records)) == case["head"], line


def golden_record(kind: str, offset: int, *numbers: int) -> tuple[int, Action]:
    make: dict[str, Callable[..., Action]] = {
        "A": lambda first, last: Append(first, last),
        "D": lambda to: Delete(to, f"d{offset}"),
        "M": lambda: Mark("m"),
        "P": lambda: Purge(f"p{offset}"),
    }
    return offset, make[kind](*numbers)


def batch_as_json(batch: Batch) -> dict[str, object]:
    match batch:
        case AppendBatch():
            records = [[offset, append.first, append.last] for offset, append in batch.records]
            return {"t": "appends", "offset": batch.offset, "records": records}
        case DeleteBatch():
            return {"t": "delete", "offset": batch.offset, "to": batch.to, "origin": batch.origin}
        case PurgeBatch():
            return {"t": "purge", "offset": batch.offset, "origin": batch.origin}


def head_as_json(head: HeadInfo) -> dict[str, object]:
    match head:
        case HeadEmpty():
            return {"t": "empty"}
        case HeadDelete():
            return {"t": "delete", "deleteTo": head.to}
        case HeadAppend():
            return {"t": "append", "offset": head.offset, "seqNr": head.seq_nr, "deleteTo": head.delete_to}
        case _:
            return {"t": "purge"}


CHECKS: dict[str, Callable[[Path], None]] = {
    r"upstream/journal__(Append|Delete|Mark|Purge)-.*\.json": check_header,
    r"upstream/journal__Payload-.*\.json": check_json_value,
    r"upstream/journal__(v0-events|v1-events|Payload)-.*\.bin": check_binary_value,
    r"upstream/pekko_persistence__.*\.(bin|json)": check_payload,
    r"generated/records\.json": check_records,
    r"generated/cassandra_rows\.txt": check_rows,
    r"generated/decoder_edge_cases\.txt": check_edges,
    r"generated/batch_and_head\.jsonl": check_folds,
}

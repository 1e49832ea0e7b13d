"""R43: whatever bytes a foreign record has, decoding them gives an action, its rows, or `BadRecord`."""

import json
from datetime import UTC
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordwood.journal.action import Append
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.header import decode_header
from cordwood.journal.record_rows import event_rows
from cordwood.journal.stored_event import StoredEvent

TINY = b"1e-9999999999999999999"
# Each is a token that some reader of JSON takes, and that breaks another one.
TOKENS = [
    b"1", b"2", b"0", b"-1", b"1.0", b"2.5", b"-0.0", TINY, b"1e9999999999999999999", b"0e99999999999999999999",
    b"1e999", b"-1e999", b"1e-400", b"9" * 30, b"9" * 5000, b"1" + b"0" * 5000 + b".0", b"9223372036854775808", b"true",
    b"null", b'"x"', b'"json"', b'"text"', b'"binary"', b'"\xff"', b'"\\ud800"', b'"\\u0000"', b'"1 day"', b"{}", b"[]",
    b'"%b days"' % (b"9" * 5000), b'"1e999 days"', b"[" * 2000 + b"]" * 2000, b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b"NaN", b"", b"\xff", b"[%b]" % TINY, b'{"a":%b}' % TINY,
]  # fmt: skip
NAMES = [
    "append", "mark", "delete", "purge", "range", "from", "to", "payloadType", "metadata", "data", "id", "expected",
    "life", "named", "keepExpiry", "after", "origin", "version", "seqNr", "events", "tags", "payload", "expireAfter",
]  # fmt: skip


def _object(fields: list[tuple[str, bytes]]) -> bytes:
    return b"{%b}" % b",".join(json.dumps(name).encode() + b":" + value for name, value in fields)


def _array(items: list[bytes]) -> bytes:
    return b"[%b]" % b",".join(items)


tokens = st.sampled_from(TOKENS)
documents = st.recursive(
    tokens,
    lambda inner: (
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=4).map(_object)
        | st.lists(inner, max_size=3).map(_array)
    ),
    max_leaves=12,
)


@st.composite
def headers(draw: Any) -> bytes:
    """A header of the right shape, with a token at some places."""
    name = draw(st.sampled_from(["append", "mark", "delete", "purge"]))
    fields = draw(st.lists(st.tuples(st.sampled_from(NAMES), tokens), max_size=4))
    if name == "append":
        numbers = _object([("from", draw(tokens | st.just(b"1"))), ("to", draw(tokens | st.just(b"1")))])
        fields = [("range", numbers), ("payloadType", b'"json"'), *fields]
    return _object([(name, _object(fields))])


@st.composite
def values(draw: Any) -> bytes:
    """A value of the right shape, with a token at some places."""
    event = [("seqNr", draw(tokens | st.just(b"1"))), ("tags", draw(tokens | st.just(b"[]")))]
    event += draw(st.lists(st.tuples(st.sampled_from(["payload", "payloadType", "tags"]), tokens), max_size=3))
    metadata = draw(st.lists(st.tuples(st.sampled_from(["expireAfter", "data"]), tokens), max_size=2))
    return _object([("events", _array([_object(event)])), ("metadata", _object(metadata))])


@settings(max_examples=500)
@given(header=headers() | documents | st.binary(max_size=60), value=values() | documents | st.binary(max_size=60))
@example(header=b'{"append":{"range":{"from":1,"to":%b},"payloadType":"json"}}' % TINY, value=b"")
@example(header=b"", value=b'{"events":[{"seqNr":%b,"tags":[]}]}' % TINY)
def test_foreign_bytes_are_an_action_or_a_bad_record(header: bytes, value: bytes) -> None:
    actions = [Append(1, 1, "json"), Append(1, 1, "binary")]
    try:
        told = decode_header(header)
        if isinstance(told, Append):
            actions.append(told)
    except BadRecord:
        pass
    for action in actions:
        try:
            rows, _ = event_rows(action, value, None, 0, 0, 2**63 - 1, None, above=0)
        except BadRecord:
            continue
        for row in rows:
            event = StoredEvent(row)
            for text in (row.payload_txt, row.metadata):
                (text or "").encode()
            assert event.append_id == action.id
            assert repr(event)
            assert event.timestamp.tzinfo is UTC

"""Headers: byte for byte those of the Scala library, and its rules for reading them."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput
from cordwood.journal.action import Action, Append, Delete, Mark, Purge
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.header import decode_header, encode_header
from cordwood.journal.json_fields import SEQ_NR_MAX

texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
seq_nrs = st.integers(1, SEQ_NR_MAX)
ranges = st.tuples(seq_nrs, seq_nrs).map(sorted)
metadata = st.sampled_from([None, b"1.50", b'{"h":[1e999,"\xc3\xa9"]}', b'"x"', b"false"])


NAMED = "00000000-0000-5000-8000-00000000beef"
names = st.none() | st.uuids().map(str)


@st.composite
def appends(draw: Any) -> Append:
    first, last = draw(ranges)
    return Append(
        first, last, draw(st.sampled_from(["json", "binary"])), draw(texts), draw(texts), draw(metadata),
        draw(texts), draw(st.none() | st.integers(0, SEQ_NR_MAX)), draw(texts), draw(names), draw(st.booleans()),
    )  # fmt: skip


actions = st.one_of(
    appends(),
    st.builds(Mark, st.text(st.characters(exclude_categories=["Cs"])), texts, texts),
    st.builds(Delete, seq_nrs, texts, texts, texts),
    st.builds(Purge, texts, texts, texts, st.none() | seq_nrs),
)

SCALA: list[tuple[Action, str]] = [
    (
        Append(1, 4, "json", "host", "10.1.0", b'{"h":"x"}'),
        '{"append":{"range":{"from":1,"to":4},"origin":"host","version":"10.1.0","payloadType":"json",'
        '"metadata":{"data":{"h":"x"}}}}',
    ),
    (Append(1, 1), '{"append":{"range":{"from":1,"to":1},"payloadType":"json","metadata":{}}}'),
    (Append(3, 9, "binary"), '{"append":{"range":{"from":3,"to":9},"payloadType":"binary","metadata":{}}}'),
    (Mark("m"), '{"mark":{"id":"m"}}'),
    (Mark("m", "host", "10.1.0"), '{"mark":{"id":"m","origin":"host","version":"10.1.0"}}'),
    (Delete(3, "host", "10.1.0"), '{"delete":{"to":3,"origin":"host","version":"10.1.0"}}'),
    (Purge(), '{"purge":{}}'),
    (Purge("host", "10.1.0"), '{"purge":{"origin":"host","version":"10.1.0"}}'),
]

OURS: list[tuple[Action, str]] = [
    (
        Append(1, 4, origin="h", version="0.1", id="c-42", expected=0, life="f0", named=NAMED, keep_expiry=True),
        '{"append":{"range":{"from":1,"to":4},"origin":"h","version":"0.1","payloadType":"json","metadata":{},'
        '"id":"c-42","expected":0,"life":"f0","named":"00000000-0000-5000-8000-00000000beef","keepExpiry":true}}',
    ),
    (Delete(3, "h", "0.1", "f0"), '{"delete":{"to":3,"origin":"h","version":"0.1","life":"f0"}}'),
    (Purge("h", "0.1", "f0", 4), '{"purge":{"origin":"h","version":"0.1","life":"f0","seqNr":4}}'),
]


@pytest.mark.parametrize(("action", "header"), SCALA + OURS)
def test_a_header_has_these_bytes(action: Action, header: str) -> None:
    assert encode_header(action).decode() == header
    assert decode_header(header.encode()) == action


@given(actions)
@example(Append(1, 2, id='a "quoted" id\n'))
def test_a_header_is_read_as_it_was_written(action: Action) -> None:
    assert decode_header(encode_header(action)) == action


@pytest.mark.parametrize(
    ("header", "action"),
    [
        ('{"rename":{"to":"x"}}', None),
        ("{}", None),
        ("[]", None),
        ("5", None),
        ("null", None),
        ('{"purge":null}', None),
        ('{"purge":[]}', None),
        ('{"purge":{},"append":"x"}', Purge()),
        ('{"append":null,"purge":{}}', Purge()),
        ('{"delete":{"to":3},"append":{"range":{"from":1,"to":2},"payloadType":"json"}}', Append(1, 2)),
        ('{"mark":{"id":"m"},"delete":{"to":0}}', Mark("m")),
        ('{"append":{"range":{"from":1,"to":2},"payloadType":"binary"}}', Append(1, 2, "binary")),
        ('{"append":{"range":{"from":1,"to":2},"payloadType":"json","metadata":"x"}}', Append(1, 2)),
        ('{"append":{"range":{"from":1,"to":2},"payloadType":"json","metadata":null}}', Append(1, 2)),
        ('{"append":{"range":{"from":1,"to":2},"payloadType":"json","metadata":{"data":null}}}', Append(1, 2)),
        ('{"append":{"range":{"from":1.0,"to":2e1},"payloadType":"json"}}', Append(1, 20)),
        (
            '{"append":{"range":{"from":9007199254740993.0,"to":9223372036854775807.0},"payloadType":"json",'
            '"origin":"h","id":"c","expected":0.0,"metadata":{"data": [1.50 ]},"keepExpiry":true}}',
            Append(2**53 + 1, SEQ_NR_MAX, "json", "h", None, b"[1.50 ]", "c", 0, None, None, True),
        ),
        ('{"mark":{"id":"m"},"append":{"range":{"from":1.0,"to":2},"payloadType":"json"}}', Append(1, 2)),
        (' { "delete" : {"to":3,"origin":null,"version":null,"new":[1e999]} , "x": 1 } ', Delete(3)),
        ('{"delete":{"to":3.0,"life":"f0"}}', Delete(3, life="f0")),
        ('{"purge":{"seqNr":4.0,"origin":"h"}}', Purge("h", seq_nr=4)),
        ('{"append":7,"mark":{"id":"m","version":"v"}}', Mark("m", version="v")),
    ],
)
def test_a_header_is_read_by_the_rules_of_the_scala_library(header: str, action: Action | None) -> None:
    assert decode_header(header.encode()) == action


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "the header is not JSON"),
        (b"xx", "the header is not JSON"),
        (b'{"purge":{}} x', "the header is not JSON"),
        (b'{"purge":{"origin":"\xff"}}', "the purge's origin cannot be read"),
        (b'{"purge":{"origin":5}}', "the purge's origin is 5, not text"),
        (b'{"purge":{"seqNr":0}}', "the purge's seqNr is 0, not in 1"),
        (b'{"mark":{}}', "the mark has no id"),
        (b'{"delete":{}}', "the delete has no to"),
        (b'{"delete":{"to":0}}', "the delete's to is 0, not in 1"),
        (b'{"delete":{"to":9223372036854775808}}', "the delete's to is 9223372036854775808, not in 1"),
        (b'{"delete":{"to":1e999999999}}', "the delete's to is 1E\\+999999999, not in 1"),
        (b'{"delete":{"to":1.5}}', "the delete's to is 1.5, not a whole number"),
        (b'{"delete":{"to":"3"}}', "the delete's to is '3', not a number"),
        (b'{"delete":{"to":true}}', "the delete's to is True, not a number"),
        (b'{"append":{}}', "the append has no range"),
        (b'{"append":{"range":{"to":1},"payloadType":"json"}}', "the append has no from"),
        (b'{"append":{"range":{"from":3,"to":2},"payloadType":"json"}}', "the append's range is from 3 to 2"),
        (b'{"append":{"range":{"from":1,"to":2},"payloadType":"text"}}', "payloadType is 'text', not 'json'"),
        (b'{"append":{"range":{"from":1,"to":2}}}', "payloadType is None, not 'json'"),
        (b'{"append":{"range":{"from":1,"to":2},"payloadType":"json","named":"x"}}', "named is 'x', and no UUID"),
        (b'{"append":{"range":{"from":1,"to":2},"payloadType":"json","expected":-1}}', "expected is -1, not in 0"),
        (b'{"append":{"range":{"from":1,"to":2},"payloadType":"json","keepExpiry":1}}', "keepExpiry is 1, not true"),
        (b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "the header is not JSON: maximum recursion"),
    ],
)
def test_a_bad_header_has_a_reason(header: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        decode_header(header)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_bytes_are_no_action(header: bytes) -> None:
    try:
        assert decode_header(header) is None
    except BadRecord:
        pass


def test_a_header_has_no_lone_surrogates() -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        encode_header(Mark("\ud800"))

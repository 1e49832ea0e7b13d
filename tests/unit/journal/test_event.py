"""Events: the payload is encoded once, and nothing that a reader could not decode gets in."""

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput
from cordwood.journal.event import Event
from cordwood.journal.json_text import check_json, decode_json, encode_json

texts = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@dataclass
class Point:
    x: float
    y: None = None


@given(documents)
def test_json_is_compact_and_reads_back(document: Any) -> None:
    raw = Event.json(document).raw
    assert json.loads(raw) == decode_json(raw) == document
    assert raw == encode_json(json.loads(raw))


@given(documents)
def test_encoded_json_is_kept_as_it_is(document: Any) -> None:
    encoded = json.dumps(document, indent=1).encode()
    assert Event.json_bytes(encoded).raw == encoded.strip()


def test_json_keeps_digits_and_letters() -> None:
    document = {"i": 2**200, "d": Decimal("12345678901234567890.1230"), "e": Decimal("1E+999"), "t": "é\x01 / <x>"}
    assert Event.json(document).raw.decode() == (
        '{"i":1606938044258990275541962092341162602522202993782792835301376,"d":12345678901234567890.1230,'
        '"e":1E+999,"t":"é\\u0001 / <x>"}'
    )
    assert Event.json({**document, "n": None}).raw.endswith(b',"n":null}')


@pytest.mark.parametrize(
    "payload",
    [
        math.nan,
        math.inf,
        {"a": [1.5, -math.inf]},
        [None, Decimal("NaN")],
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Point(math.nan),
        ({"a": {math.inf}},),
        "\ud800",
        {"\udfff": 1},
        [10**5000],
    ],
)
def test_json_refuses_values_that_json_has_none_of(payload: object) -> None:
    with pytest.raises(InvalidInput):
        Event.json(payload)


def test_json_refuses_an_endless_value() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="recursion"):
        Event.json(endless)


@pytest.mark.parametrize("text", ["NaN", "null", "Infinity"])
def test_json_takes_texts_that_look_like_such_values(text: str) -> None:
    assert Event.json({text: [text, None, 1.5, Point(2.5)]}).raw == encode_json(
        {text: [text, None, 1.5, {"x": 2.5, "y": None}]}
    )


@pytest.mark.parametrize(
    "encoded", [b"", b"{", b"{'a': 1}", b"NaN", b"1 2", b'"\xff"', b'"\\ud800"', b"01", b"[" * 3000 + b"]" * 3000]
)
def test_encoded_json_is_checked(encoded: bytes) -> None:
    with pytest.raises(InvalidInput, match="is not JSON"):
        Event.json_bytes(encoded)


def test_encoded_json_may_have_numbers_that_python_has_not() -> None:
    assert check_json(b" 1e999 ") == b"1e999"
    assert decode_json(b"[1e999, 1.5, 2]") == [Decimal("1e999"), 1.5, 2]
    assert decode_json("9" * 5000) == Decimal("9" * 5000)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Event.binary("text"),  # type: ignore[arg-type]
        lambda: Event.binary(5),  # type: ignore[arg-type]
        lambda: Event.text(b"bytes"),  # type: ignore[arg-type]
        lambda: Event.json(object()),
        lambda: Event.json({(1, 2): 3}),
        lambda: Event.json(b'{"n":1}'),
        lambda: Event.json_bytes('{"n":1}'),  # type: ignore[arg-type]
        lambda: Event.empty(tags="paid"),
        lambda: Event.empty(tags=b"paid"),  # type: ignore[arg-type]
        lambda: Event.empty(tags=[1]),  # type: ignore[list-item]
        lambda: Event.empty(tags=["a", None]),  # type: ignore[list-item]
        lambda: Event.empty(tags=None),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_type_errors(make: Callable[[], Event]) -> None:
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("make", [lambda: Event.text("a\ud800"), lambda: Event.empty(tags={"ok", "\ud800"})])
def test_texts_and_tags_have_no_lone_surrogates(make: Callable[[], Event]) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        make()


def test_an_event_is_a_value() -> None:
    event = Event.text("hi", tags=["b", "a", "b"])
    assert event == Event.text("hi", tags={"a", "b"})
    assert event != Event.binary(b"hi", tags={"a", "b"})
    assert len({event, Event.text("hi", tags=("a", "b"))}) == 1
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(AttributeError):
        event.raw = b""  # type: ignore[misc]


def test_a_later_change_of_the_object_changes_nothing() -> None:
    document, payload = {"n": 1}, bytearray(b"ab")
    events = [Event.json(document), Event.binary(payload), Event.binary(memoryview(payload))]
    document["n"] = 2
    payload[:] = b"xy"
    assert [event.raw for event in events] == [b'{"n":1}', b"ab", b"ab"]


def test_an_event_shows_itself_in_short() -> None:
    assert repr(Event.empty()) == "Event.empty()"
    assert repr(Event.json({"n": 1}, tags={"b", "a"})) == "Event.json(b'{\"n\":1}', tags={'a', 'b'})"
    assert repr(Event.binary(bytes(5000))).endswith("… 5,000 bytes)")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("json", b"x"), InvalidInput),
        (("text", b"\xff"), InvalidInput),
        (("weird", b"x"), InvalidInput),
        ((None, b"x"), InvalidInput),
        (("binary", "x"), TypeError),
        (("json", b"1", [1]), TypeError),
        (("json", b"1", frozenset({1})), TypeError),
    ],
)
def test_an_event_made_by_hand_is_checked(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        Event(*arguments)

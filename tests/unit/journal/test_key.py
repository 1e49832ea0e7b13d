"""Ids of journals: 1 to 1,024 bytes of UTF-8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import InvalidInput
from cordwood.journal.key import decode_id, encode_id


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256))
def test_an_id_is_read_as_it_was_written(id: str) -> None:
    assert decode_id(encode_id(id)) == id


@pytest.mark.parametrize("id", ["", "x" * 1025, "é" * 513, "a\ud800"], ids=["empty", "ascii", "letters", "surrogate"])
def test_an_id_outside_of_the_limits_is_invalid_input(id: str) -> None:
    with pytest.raises(InvalidInput, match="the id "):
        encode_id(id)


def test_an_id_of_1024_bytes_is_the_longest() -> None:
    assert len(encode_id("é" * 512)) == 1024


@pytest.mark.parametrize("id", [b"order-1", 5, None])
def test_an_id_is_text(id: object) -> None:
    with pytest.raises(TypeError):
        encode_id(id)  # type: ignore[arg-type]


def test_a_key_that_is_not_utf8_is_no_id() -> None:
    assert decode_id(b"\xff") is None

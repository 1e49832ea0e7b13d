"""The records of the metadata stream: as bytes, and as changes of a chain."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import Corrupt
from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.records import (
    Continued,
    Dropped,
    Full,
    Incremental,
    Init,
    MetadataRecord,
    apply,
    decode,
    encode,
    whole_chain,
)
from cordwood.log.native.plog import PlogId

numbers = st.integers(0, 2**63 - 1)
names = st.text("ab-0é∞ ", max_size=20)
ids = st.builds(PlogId, names, names, st.integers(1, 2**64 - 1))
opened = st.builds(Link, ids, numbers)
links = st.builds(Link, ids, numbers, numbers, numbers, st.integers(-1, 2**63 - 1)) | opened
# A seal does not say again where its plog begins.
sealed = st.builds(Link, ids, st.just(0), numbers, numbers, st.integers(-1, 2**63 - 1))
records = st.one_of(
    st.builds(Init, opened),
    st.builds(Incremental, sealed, st.none() | opened),
    st.builds(Full, st.lists(links, max_size=5)),
    st.builds(Dropped, st.lists(ids, max_size=5)),
    st.builds(Continued, st.lists(links, max_size=5)),
)


def plog(number: int) -> PlogId:
    return PlogId("local", "0", number)


# -- as bytes ----------------------------------------------------------------------------------------------------


@given(records)
def test_every_record_comes_back(record: MetadataRecord) -> None:
    assert decode(encode(record)) == record


@given(records)
def test_every_truncation_is_corrupt_but_a_switch_that_ends_with_its_seal(record: MetadataRecord) -> None:
    data = encode(record)
    for length in range(len(data)):
        if isinstance(record, Incremental) and data[:length] == encode(Incremental(record.sealed, None)):
            # A whole record too: that bytes are missing behind it, only the CRC of its frame can tell.
            continue
        with pytest.raises(Corrupt):
            decode(data[:length])


@given(records, st.binary(min_size=1, max_size=3))
def test_bytes_behind_a_record_are_corrupt(record: MetadataRecord, more: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(encode(record) + more)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_an_unknown_version_is_named(version: int) -> None:
    with pytest.raises(Corrupt, match=f"version {version}; this version of cordwood reads version 1"):
        decode(bytes([version]) + encode(Dropped([]))[1:])


@pytest.mark.parametrize("type", [0, 6, 255])
def test_an_unknown_type_is_named(type: int) -> None:
    with pytest.raises(Corrupt, match=f"unknown type {type}"):
        decode(bytes([1, type]) + encode(Dropped([]))[2:])


@pytest.mark.parametrize("text", [b"", b"local/0", b"local/0/1/2", b"local/0/xyz", b"\xff/0/1"])
def test_an_id_that_is_none_is_corrupt(text: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(b"\x01\x04" + (1).to_bytes(4, "little") + bytes([len(text)]) + text)


# -- as changes of a chain ---------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[MetadataRecord, list[Link]]]:
    """Records that may follow each other, each with the links that a plain list has after it."""
    model: list[Link] = []
    history: list[tuple[MetadataRecord, list[Link]]] = []
    for number in range(1, draw(st.integers(1, 25))):
        record: MetadataRecord
        first = draw(numbers)
        following = draw(st.none() | st.just(Link(plog(number), first)))
        match draw(st.sampled_from(["init", "seal", "full", "drop", "continue"])):
            case "seal" if model:
                facts = Link(model[-1].id, 0, draw(numbers), draw(numbers), draw(numbers))
                record = Incremental(facts, following)
                model[-1] = replace(facts, first_offset=model[-1].first_offset)
                model += [] if following is None else [following]
            case "full":
                model = [Link(plog(1000 * number + place), place) for place in range(draw(st.integers(0, 4)))]
                record = Full(model[:])
            case "drop" if model:
                count = draw(st.integers(1, len(model)))
                # Of a plog that is gone already nothing is left to drop.
                record = Dropped([plog(7_000_000), *(link.id for link in model[:count])])
                del model[:count]
            case "continue":
                more = [Link(plog(1000 * number + place), place) for place in range(draw(st.integers(0, 4)))]
                record = Continued(more)
                model += more
            case _:
                record = Init(Link(plog(number), first))
                model.append(record.link)
        history.append((record, model[:]))
    return history


@given(histories())
def test_a_chain_after_any_records_is_what_a_plain_list_says(history: list[tuple[MetadataRecord, list[Link]]]) -> None:
    chain = Chain()
    for record, model in history:
        chain = apply(chain, decode(encode(record)))
        assert list(chain) == model


@pytest.mark.parametrize(
    "chain",
    [Chain(), Chain([Link(plog(2), 0)]), Chain([Link(plog(1), 0, 8, 5, 0), Link(plog(2), 5)])],
    ids=["nothing", "another plog", "an earlier one"],
)
def test_a_seal_of_a_plog_that_is_not_the_last_is_corrupt_and_named(chain: Chain) -> None:
    with pytest.raises(Corrupt, match=f"seals plog {plog(1)}, which is not the last"):
        apply(chain, Incremental(Link(plog(1), 0, 8, 5, 0), None))


@pytest.mark.parametrize("length", [0, 1, 10_000, 10_001, 25_000])
def test_a_chain_of_any_length_fits_into_records_of_a_frame_each(length: int) -> None:
    chain = Chain(Link(plog(number + 1), number, 8, number + 1, 0) for number in range(length))
    found = Chain([Link(plog(999_999), 0)])
    encoded = [encode(record) for record in whole_chain(chain)]
    for value in encoded:
        found = apply(found, decode(value))
    assert found.links == chain.links
    assert max(map(len, encoded)) < 1024 * 1024

"""Which plog of a chain holds an offset, and which may go: also where plogs are empty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.plog import PlogId


def plog(number: int) -> PlogId:
    return PlogId("local", "0", number)


def chain_of(*counts: int, start: int = 0, last_open: bool = False) -> Chain:
    """A chain of plogs with so many records each; a plog that failed before its first sync has none."""
    found, first = [], start
    for number, count in enumerate(counts, 1):
        link = Link(plog(number), first)
        is_open = last_open and number == len(counts)
        found.append(link if is_open else link.sealed(100 * count, first + count, first))
        first += count
    return Chain(found)


counts = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(counts, st.integers(0, 50))
def test_every_offset_is_found_in_its_plog_among_empty_ones(counts: list[int], start: int) -> None:
    chain = chain_of(*counts, start=start)
    for place, link in enumerate(chain):
        for offset in range(link.first_offset, link.next_offset):
            assert chain.index_of(offset) == place


@pytest.mark.parametrize(("offset", "place"), [(0, 0), (9, 0), (10, 3), (12, 3), (13, 4), (99, 4)])
def test_an_offset_outside_the_chain_belongs_to_its_nearest_plog(offset: int, place: int) -> None:
    assert chain_of(0, 0, 0, 3, 0, start=10).index_of(offset) == place


def test_in_an_empty_chain_every_offset_belongs_to_the_first_plog() -> None:
    assert (Chain().index_of(0), Chain().index_of(7), Chain().last, len(Chain())) == (0, 0, None, 0)


def test_a_plog_has_its_place_among_empty_ones_of_the_same_offset() -> None:
    chain = chain_of(0, 2, 0, 0)
    assert [chain.place_of(plog(number)) for number in range(1, 6)] == [0, 1, 2, 3, -1]


@given(counts, st.integers(0, 40), st.booleans())
def test_a_trim_drops_the_longest_sealed_beginning_below_its_offset(
    counts: list[int], before: int, last_open: bool
) -> None:
    chain = chain_of(*counts, last_open=last_open)
    dropped = chain.droppable(before)
    assert tuple(dropped) == chain.links[: len(dropped)]
    assert all(link.end is not None and link.first_offset < before >= link.next_offset for link in dropped)
    if len(dropped) < len(chain):
        kept = chain.links[len(dropped)]
        assert kept.end is None or kept.next_offset > before or kept.first_offset >= before


@pytest.mark.parametrize(
    ("before", "dropped"),
    [(0, 0), (1, 1), (2, 2), (3, 3), (5, 4)],
    ids=["empty at the start", "in a plog", "but the empty one behind", "in the next", "all but the open one"],
)
def test_an_empty_plog_goes_once_the_log_is_trimmed_beyond_it(before: int, dropped: int) -> None:
    assert len(chain_of(0, 2, 0, 3, 0, last_open=True).droppable(before)) == dropped


def test_a_changed_chain_is_another_one_and_readers_hold_on_to_theirs() -> None:
    chain = chain_of(1, 2, last_open=True)
    before = chain.links
    sealed = chain.links[-1].sealed(200, 3, 9)
    assert chain.with_last(sealed).links == (before[0], sealed)
    assert chain.with_link(Link(plog(3), 3)).links == (*before, Link(plog(3), 3))
    assert chain.without([plog(1), plog(9)]).links == before[1:]
    assert chain.links == before

"""R21: an id that is used again: after replication, at once, with another condition, after a Purge."""

import asyncio
from decimal import Decimal

import pytest

from cordwood import Conflict, Event
from tests.support.journal.journals import Journals, append

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")


async def test_the_result_of_a_large_append_is_repeated_whole(journals: Journals) -> None:
    journal = await journals.open()
    events = [Event.binary(b"x" * 300_000)] * 5  # over a page of the store
    first = await journal.append("A", events, expected=0, id="command")
    await append(journal, "A", "after")
    await journal.catch_up()
    again = await (await journals.open()).append("A", events, expected=0, id="command")
    assert again == first
    assert again.seq_nrs == range(1, 6)


async def test_a_retry_finds_its_append_whatever_its_metadata_holds(journals: Journals) -> None:
    journal = await journals.open()
    metadata = {"large": Decimal("1e999")}
    first = await append(journal, "A", "1", expected=0, id="command", metadata=metadata)
    await journal.catch_up()
    again = await journals.open()
    assert await append(again, "A", "1", expected=0, id="command", metadata=metadata) == first
    with pytest.raises(Conflict) as caught:
        await append(again, "A", "1", expected=0, id="another", metadata=metadata)
    assert caught.value.winner == "command"


async def test_calls_at_once_with_one_id_and_no_condition_all_append(journals: Journals) -> None:
    journal = await journals.open()
    calls = [journal.append("A", [Event.json(number)], id="X") for number in range(5)]
    done = await asyncio.gather(*calls)
    assert [appended.seq_nrs for appended in done] == [range(number, number + 1) for number in range(1, 6)]
    async with journal.read("A") as reader:
        assert [(event.seq_nr, event.payload) async for event in reader] == [(n + 1, n) for n in range(5)]


@pytest.mark.parametrize("replicate", [False, True])
async def test_without_a_condition_an_id_of_another_process_says_nothing(journals: Journals, replicate: bool) -> None:
    first = await (await journals.open()).append("A", [Event.json(1)], id="X")
    other = await journals.open()
    if replicate:
        await other.catch_up()
    second = await other.append("A", [Event.json(2), Event.json(3)], id="X")
    assert (first.seq_nrs, second.seq_nrs, first.id, second.id) == (range(1, 2), range(2, 4), "X", "X")
    async with other.read("A") as reader:
        assert [event.payload async for event in reader] == [1, 2, 3]
    ids = [action.id async for action in other.explain("A") if action.kind == "append"]
    assert all(id is not None and id.startswith("X#") for id in ids)
    assert len(set(ids)) == len(ids)


async def test_racing_calls_with_one_id_and_no_condition_all_append(journals: Journals) -> None:
    handles = [await journals.open() for _ in range(2)]
    done = await asyncio.gather(*(handles[n % 2].append("A", [Event.json(n)], id="X") for n in range(40)))
    assert sorted(appended.seq_nrs[0] for appended in done) == list(range(1, 41))
    async with handles[0].read("A") as reader:
        assert {event.payload async for event in reader} == set(range(40))


async def test_a_repetition_with_other_events_returns_the_first_result(journals: Journals) -> None:
    journal, other = await journals.open(), await journals.open()
    await other.pointer("A")
    first, second = await asyncio.gather(
        journal.append("A", [Event.json(1)], expected=0, id="X"),
        other.append("A", [Event.json(1), Event.json(2)], expected=0, id="X"),
    )
    assert first == second
    assert await journal.pointer("A") == first.seq_nrs[-1]


async def test_calls_at_once_with_one_id_and_one_condition_are_one_append(journals: Journals) -> None:
    journal = await journals.open()
    calls = [journal.append("A", [Event.json(0)], expected=0, id="X") for _ in range(5)]
    done = await asyncio.gather(*calls)
    assert {appended.seq_nrs for appended in done} == {range(1, 2)}
    assert await journal.pointer("A") == 1


@pytest.mark.parametrize("replicate", [False, True])
async def test_another_condition_is_another_append(journals: Journals, replicate: bool) -> None:
    journal, other = await journals.open(), await journals.open()
    await append(journal, "A", "1")
    await other.pointer("A")
    done = await journal.append("A", [Event.json("2"), Event.json("3")], expected=1, id="X")
    if replicate:
        await journal.catch_up()
    # 2 is a number of that append, and not the one that it began after.
    for expected in (2, 7):
        for handle in (journal, other):
            with pytest.raises(Conflict) as caught:
                await handle.append("A", [Event.json("2")] * 2, expected=expected, id="X")
            assert caught.value.actual == 3
    assert await other.append("A", [Event.json("2"), Event.json("3")], expected=1, id="X") == done


async def test_racing_calls_with_one_id_and_two_conditions(journals: Journals) -> None:
    journal, other = await journals.open(), await journals.open()
    await append(journal, "A", "1")
    await other.pointer("A")
    done, refused = await asyncio.gather(
        journal.append("A", [Event.json("2")] * 2, expected=1, id="X"),
        other.append("A", [Event.json("2")] * 2, expected=7, id="X"),
        return_exceptions=True,
    )
    assert not isinstance(done, BaseException)
    assert done.seq_nrs == range(2, 4)
    assert isinstance(refused, Conflict)


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_purge_ends_the_promise_for_an_id(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", *"12345")
    await journal.append("A", [Event.json("6")], expected=5, id="X")
    await journal.catch_up()
    await journal.purge("A")
    await append(journal, "A", "new")
    if replicate:
        await journal.catch_up()
    with pytest.raises(Conflict) as caught:
        await (await journals.open()).append("A", [Event.json("6")], expected=5, id="X")
    assert caught.value.actual == 1

"""R24: two replicators on one topic waste work, and none of their callers gets an error."""

import pytest

from cordwood import Journal, Unavailable
from cordwood.journal.replicator import Replicator
from cordwood.store import PartitionChanges
from tests.support.journal.journals import TOPIC, Journals, append, read_texts
from tests.support.journal.stored_rows import rebuilt_rows, rows_of_log

KEYS = ("A", "B", "C")


async def replicate_some(journal: Journal, records: int) -> None:
    """Another replicator writes so many further records, and no more."""
    topic = (await journal._open()).topic
    replicator = Replicator(topic, lambda partition, pointer: None)
    await replicator._load_pointers()
    start = replicator._next(0)
    async with topic.read({0: start}, {0: start + records}) as reader:
        async for batch in reader:
            await replicator._replicate(batch)


async def overtaken(journals: Journals, monkeypatch: pytest.MonkeyPatch, times: int) -> Journal:
    """A journal with unreplicated events: another replicator moves the pointer before each of its first writes."""
    journal, other = await journals.open(), await journals.open()
    for number in range(1, 5):
        for key in KEYS:
            await append(journal, key, f"{key} {number}")
    await other.pointer("A")
    store = (await journal._open()).topic.store
    write = store.write
    left = times

    async def late(changes: PartitionChanges) -> bool:
        nonlocal left
        if left:
            left -= 1
            await replicate_some(other, 2)
        return await write(changes)

    monkeypatch.setattr(store, "write", late)
    return journal


@pytest.mark.parametrize("call", ["catch_up", "purge_expired"])
async def test_a_replicator_continues_after_the_pointer_of_another(
    journals: Journals, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    journal = await overtaken(journals, monkeypatch, times=3)
    await getattr(journal, call)()
    assert journal.stats().lag[0] == 0
    for key in KEYS:
        assert await read_texts(await journals.open(), key) == {number: f"{key} {number}" for number in range(1, 5)}
    assert rows_of_log(journals) == await rebuilt_rows(journals)


async def test_an_accepted_loss_is_recorded_from_the_pointer_of_another(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await overtaken(journals, monkeypatch, times=0)
    store = (await journal._open()).topic.store
    await (await journals.connect()).log(TOPIC).trim(5)
    write = store.write

    async def late(changes: PartitionChanges) -> bool:
        monkeypatch.setattr(store, "write", write)
        moved = PartitionChanges(TOPIC, 0, None, 1, [], [])
        assert await write(moved)
        return await write(changes)

    monkeypatch.setattr(store, "write", late)
    await journal.catch_up(accept_loss=True)
    assert [(letter.offset, letter.through) for letter in await journal.dead_letters()] == [(2, 4)]


async def test_a_pointer_that_moves_back_is_an_error(journals: Journals, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await journal.catch_up()
    await append(journal, "A", "2")
    store = (await journal._open()).topic.store

    async def refuse(changes: PartitionChanges) -> bool:
        return False

    monkeypatch.setattr(store, "write", refuse)
    with pytest.raises(Unavailable, match="was not written") as caught:
        await journal.catch_up()
    assert caught.value.reason == "busy"

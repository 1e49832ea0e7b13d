"""R25: a gap that the head row confirms is damage of the store, unless an append may have left it."""

import re
import sqlite3
from contextlib import closing

import pytest

from cordwood import Corrupt
from cordwood.journal.action import Append
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from tests.support.journal.journals import Journals, append, put, read_texts, texts


def lose(journals: Journals, first: int, last: int) -> None:
    """Take these events of A out of the store, as damage hides rows."""
    with closing(sqlite3.connect(journals.kind.store_url.removeprefix("sqlite:"))) as db, db:
        lost = db.execute("DELETE FROM journal WHERE id = 'A' AND seq_nr BETWEEN ? AND ?", (first, last))
        assert lost.rowcount == last - first + 1


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 4), (3, 3), (4, 7), (9, 10), (10, 10), (1, 10)])
async def test_r25_events_that_the_store_has_lost_are_damage(journals: Journals, first: int, last: int) -> None:
    journal = await journals.open()
    for number in range(1, 11, 2):
        await append(journal, "A", str(number), str(number + 1))
    await append(journal, "B", "sound")
    await journal.catch_up()
    lose(journals, first, last)
    said = re.escape(f"{journals.kind.store_url}: journal 'A' of 'orders' lacks its events ")
    for start, stop in ((1, None), (first, None), (last, None), (first, last + 1)):
        with pytest.raises(Corrupt, match=f"{said}.*restore the store from a copy, or rebuild it from its log"):
            await read_texts(journal, "A", start, stop)
    for reader in (journal.follow("A"), journal.read("A")):
        with pytest.raises(Corrupt, match=said):
            async with reader:
                for _ in range(11):
                    await anext(reader)
    # The rest is as it was.
    assert list(await read_texts(journal, "A", last + 1)) == list(range(last + 1, 11))
    assert list(await read_texts(journal, "A", 1, first)) == list(range(1, first))
    assert await read_texts(journal, "B") == {1: "sound"}


async def test_r25_events_that_were_lost_before_unreplicated_ones_are_damage(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    await journal.catch_up()
    await append(journal, "A", "3")
    lose(journals, 2, 2)
    with pytest.raises(Corrupt, match="lacks its events 2 to 2"):
        await read_texts(journal, "A")


async def test_r25_deleted_events_are_not_lost(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2", "3")
    await journal.catch_up()
    await journal.delete("A", through=2)
    await journal.catch_up()
    assert await read_texts(journal, "A") == {3: "3"}


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("more", [0, 1])
async def test_r25_the_numbers_of_skipped_records_are_not_lost(journals: Journals, after: int, more: int) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    skipped = [encode_header(Append(2, 3, id="a", expected=1)), encode_header(Append(4, 4, id="b", expected=3))]
    for header in skipped[: 1 + after]:
        partition, offset = await put(await journals.connect(), b"A", header, b"no value")
        await journal.catch_up()
        await journal.skip(partition=partition, offset=offset)
    if more:
        await append(journal, "A", "more")
        await journal.catch_up()
    end = 4 + after
    assert await read_texts(journal, "A") == {1: "1"} | ({end: "more"} if more else {})
    lose(journals, 1, 1)
    with pytest.raises(Corrupt, match="lacks its events 1 to 1:"):
        await read_texts(journal, "A")


async def test_r25_a_foreign_append_may_leave_a_gap(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    payload_type, value = encode_value(texts("5", "6", "7"), 5, None, None)
    await put(await journals.connect(), b"A", encode_header(Append(5, 7, payload_type)), value)
    await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "1", 5: "5", 6: "6", 7: "7"}
    assert await read_texts(journal, "A", 3, 5) == {}
    # Not between the events of one record.
    lose(journals, 6, 6)
    with pytest.raises(Corrupt, match="lacks its events 6 to 6:"):
        await read_texts(journal, "A")

"""R22: expiry follows record timestamps, in UTC days, and looks at the head."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cordwood import InvalidInput, Journal
from cordwood.journal.action import Purge
from cordwood.journal.header import encode_header
from cordwood.store import HeadRow
from cordwood.store.sqlite.store import SqliteStore
from tests.support.journal.journals import TOPIC, Clock, Journals, append, put, read_texts
from tests.support.journal.scala_peer import ScalaPeer
from tests.support.journal.stored_rows import head_row, tables

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")

DAY = timedelta(days=1)


def expiry(journals: Journals, key: str) -> str | None:
    row = head_row(journals, key)
    assert row is not None
    assert (row["expire_on"] is None) == (row["expire_after"] is None)
    day: str | None = row["expire_on"]
    return day


async def purged(journal: Journal, **arguments: Any) -> set[str]:
    report = await journal.purge_expired(**arguments)
    assert report.failed == {}
    assert report.refused == ()
    return set(report.purged)


async def test_a_journal_is_purged_on_the_day_after_its_expiry(journals: Journals) -> None:
    clock = Clock()  # noon on 10 March
    journal = await journals.open(clock=clock)
    await append(journal, "A", "1", expire_after=timedelta(hours=11))
    await append(journal, "B", "1", expire_after=timedelta(hours=13))
    await append(journal, "C", "1")
    clock.now = datetime(2026, 3, 10, 23, 59, tzinfo=UTC)
    assert await purged(journal) == set()
    clock.now = datetime(2026, 3, 11, 0, 0, 1, tzinfo=UTC)
    assert await purged(journal) == {"A"}
    assert await purged(journal) == set()
    clock.pass_by(DAY)
    assert await purged(journal) == {"B"}
    assert [await journal.pointer(key) for key in "ABC"] == [None, None, 1]
    await journal.catch_up()
    assert {row["id"] for name in ("journal", "metajournal") for row in tables(journals)[name]} == {"C"}


async def test_the_last_append_decides_about_the_expiry(journals: Journals) -> None:
    journal = await journals.open(clock=Clock())
    await append(journal, "A", "1", expire_after=DAY)
    await journal.catch_up()
    assert expiry(journals, "A") == "2026-03-11"
    await append(journal, "A", "2", keep_expiry=True)
    await journal.catch_up()
    assert expiry(journals, "A") == "2026-03-11"
    await append(journal, "A", "3", expire_after=3 * DAY, keep_expiry=True)
    await journal.catch_up()
    assert expiry(journals, "A") == "2026-03-13"
    await append(journal, "A", "4")
    await journal.catch_up()
    assert expiry(journals, "A") is None
    await append(journal, "A", "5", keep_expiry=True)
    await journal.catch_up()
    assert expiry(journals, "A") is None


async def test_expiry_in_the_head_is_looked_at(journals: Journals) -> None:
    # The store says that it expires; the head, which is not replicated, says otherwise.
    clock = Clock()
    journal = await journals.open(clock=clock)
    await append(journal, "longer", "1", expire_after=DAY)
    await append(journal, "cleared", "1", expire_after=DAY)
    await journal.catch_up()
    clock.pass_by(2 * DAY)
    await append(journal, "longer", "2", expire_after=DAY)
    await append(journal, "cleared", "2")
    await append(journal, "new", "1", expire_after=timedelta(0))
    assert await purged(journal) == set()
    clock.pass_by(DAY)
    assert await purged(journal) == {"new"}


async def test_missed_days_are_found(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    for day in range(5):
        await append(journal, f"day-{day}", "1", expire_after=timedelta(0))
        clock.pass_by(DAY)
    assert await purged(journal, on=date(2026, 3, 11)) == {"day-0", "day-1"}
    assert await purged(journal) == {"day-2", "day-3", "day-4"}


async def test_a_day_before_those_that_are_complete_can_be_named(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock, single_writer=True)
    await append(journal, "A", "1", expire_after=timedelta(0))
    clock.pass_by(5 * DAY)
    assert await purged(journal) == {"A"}
    # A record with an old time: another program's clock was wrong, or a copy keeps the times of its source.
    peer = ScalaPeer(await journals.connect())
    await peer.append("late", [1], expire_after="1 second", timestamp=Clock()())
    assert await purged(journal, on=date(2026, 3, 10)) == {"late"}


async def test_a_purge_that_is_repeated_takes_no_new_journal(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    done = await append(journal, "A", *"12345", expire_after=timedelta(0))
    clock.pass_by(DAY)
    assert await purged(journal) == {"A"}
    await append(journal, "A", *"12345", expire_after=DAY)
    # The same Purge again, after its ack was lost.
    again = Purge(life=done.position.life, seq_nr=5)
    await put(await journals.connect(), b"A", encode_header(again))
    assert await journal.pointer("A") == 5
    await journal.catch_up()
    assert await journal.pointer("A") == 5


async def test_a_purge_at_another_number_changes_nothing(journals: Journals) -> None:
    journal = await journals.open()
    done = await append(journal, "A", "1")
    await append(journal, "A", "2")
    late = Purge(life=done.position.life, seq_nr=1)
    await put(await journals.connect(), b"A", encode_header(late))
    assert await read_texts(journal, "A") == {1: "1", 2: "2"}
    await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "1", 2: "2"}


class AppendsMeanwhile(SqliteStore):
    """A store whose user appends to each expired journal after it was found, and before it is purged."""

    def __init__(self, store: SqliteStore, journal: Journal) -> None:
        super().__init__(store.url, store._session)  # type: ignore[arg-type]
        self._journal = journal
        self.appends = True

    async def expired(self, topic: str, after: date | None, through: date) -> AsyncIterator[list[tuple[str, HeadRow]]]:
        async for page in super().expired(topic, after, through):
            for id, _ in page:
                if self.appends:
                    await append(self._journal, id, "meanwhile", keep_expiry=True)
            yield page


@pytest.mark.kinds("folder and SQLite", "Kafka and SQLite")
async def test_a_journal_that_grows_meanwhile_is_purged_by_a_later_run(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    other = await journals.open(clock=clock)
    await append(other, "A", "1", expire_after=timedelta(0))
    clock.pass_by(DAY)
    store = await journals.store()
    assert isinstance(store, SqliteStore)
    journal._store = meanwhile = AppendsMeanwhile(store, other)
    report = await journal.purge_expired()
    assert (report.purged, report.refused, dict(report.failed)) == ((), ("A",), {})
    assert await read_texts(journal, "A") == {1: "1", 2: "meanwhile"}
    meanwhile.appends = False
    assert await purged(journal) == {"A"}


async def test_a_run_purges_many_journals(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock, partitions=3)
    for number in range(40):
        await append(journal, f"key-{number}", "1", expire_after=timedelta(0) if number % 2 else None)
    clock.pass_by(DAY)
    assert await purged(journal) == {f"key-{number}" for number in range(1, 40, 2)}
    assert len([id async for id in journal.ids()]) == 20


async def test_a_closed_key_expires_too(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock)
    await append(journal, "A", "1", expire_after=timedelta(0))
    await put(await journals.connect(), b"A", b"no JSON", timestamp=clock())
    clock.pass_by(DAY)
    assert await purged(journal) == {"A"}
    assert await journal.pointer("A") is None


async def test_a_foreign_expiry_is_replicated_by_its_record(journals: Journals) -> None:
    clock = Clock()
    journal = await journals.open(clock=clock, single_writer=True)
    await journal.pointer("A")
    peer = ScalaPeer(await journals.connect())
    await peer.append("A", [1], expire_after="36 hours", timestamp=clock())
    await journal.catch_up()
    assert expiry(journals, "A") == "2026-03-12"
    clock.pass_by(2 * DAY)
    assert await purged(journal) == set()
    clock.pass_by(DAY)
    assert await purged(journal) == {"A"}


async def test_an_expiry_beyond_every_calendar_is_kept_or_refused(journals: Journals) -> None:
    journal = await journals.open(clock=Clock())
    with pytest.raises(InvalidInput, match=r"expire_after is 999999999 days.*, not in 0\.\.106,751 days") as caught:
        await append(journal, "A", "1", expire_after=timedelta.max)
    assert caught.value.outcome == "not_written"
    longest = timedelta(microseconds=(2**63 - 1) // 1000)  # 292 years, as far as the Scala library's durations reach
    await append(journal, "A", "1", expire_after=longest)
    await journal.catch_up()
    assert expiry(journals, "A") == "2318-06-20"


async def test_a_foreign_expiry_without_limits_stops_no_replicator(journals: Journals) -> None:
    journal = await journals.open(single_writer=True)
    await journal.pointer("A")
    client = await journals.connect()
    peer = ScalaPeer(client)
    for number, text in enumerate(("99999999999999 days", "-1 days", "1e300 hours"), 1):
        await peer.append(f"bad-{number}", [1], expire_after=text)
    await peer.append("late", [1], expire_after="106751 days", timestamp=2**62)
    await append(journal, "good", "1")
    await journal.catch_up()
    assert await journal.pointer("good") == 1
    assert head_row(journals, "late") is not None
    assert (await client.topic(TOPIC)).partitions == 1

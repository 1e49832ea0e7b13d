"""`cordwood.sync`: journals without an event loop do what the async ones do."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Conflict, Event, InvalidInput, NotFound, Timeout, Unavailable, sync
from cordwood.sync.journal import CHUNK_EVENTS_MAX


@pytest.fixture
def cw(tmp_path: Path) -> Iterator[sync.Client]:
    with sync.connect(tmp_path / "data") as cw:
        yield cw


@pytest.fixture
def journal(cw: sync.Client) -> sync.Journal:
    return cw.journal("orders")


def texts(*payloads: str) -> list[Event]:
    return [Event.text(payload) for payload in payloads]


def payloads(reader: sync.EventReader) -> list[object]:
    with reader:
        return [event.payload for event in reader]


def test_an_order_from_its_first_event_to_its_purge(journal: sync.Journal) -> None:
    done = journal.append("order-1", texts("a", "b", "c"), expected=0, id="first", headers={"trace": "7"})
    assert (done.seq_nrs, done.id) == (range(1, 4), "first")
    assert journal.append("order-1", texts("a", "b", "c"), expected=0, id="first") == done
    with pytest.raises(Conflict) as lost:
        journal.append("order-1", texts("z"), expected=2)
    assert (lost.value.actual, lost.value.winner) == (3, "first")
    reader = journal.read("order-1", start=2)
    assert payloads(reader) == ["b", "c"]
    assert reader.position == done.position == journal.position("order-1")
    assert payloads(journal.read("order-1", stop=2)) == ["a"]
    assert payloads(journal.read("order-1", until=datetime(2020, 1, 1, tzinfo=UTC))) == []
    journal.delete("order-1", through=2)
    assert (payloads(journal.read("order-1")), journal.pointer("order-1")) == (["c"], 3)
    report = journal.purge("order-1", wait=True)
    assert report.log_until is not None
    assert journal.pointer("order-1") is None
    assert journal.append("order-1", texts("anew")).seq_nrs == range(1, 2)


def test_snapshots_and_recovery(journal: sync.Journal) -> None:
    journal.append("order-1", texts("a", "b", "c"))
    assert journal.load_snapshot("order-1") is None
    journal.save_snapshot("order-1", 2, b"ab")
    with journal.recover("order-1") as recovered:
        assert recovered.snapshot is not None
        assert (recovered.snapshot.payload, [event.payload for event in recovered]) == (b"ab", ["c"])
        assert recovered.position == journal.position("order-1")
    journal.delete_snapshots("order-1", through=2)
    with journal.recover("order-1") as recovered:
        assert (recovered.snapshot, [event.seq_nr for event in recovered]) == (None, [1, 2, 3])
    with pytest.raises(InvalidInput, match="enter the recovery first"):
        iter(journal.recover("order-1"))


def test_ids_actions_and_numbers(journal: sync.Journal) -> None:
    keys = {f"order-{number}" for number in range(10)}
    done = [journal.append(key, texts("a")) for key in keys]
    assert set(journal.ids()) == keys
    with pytest.raises(Conflict):
        journal.append("order-1", texts("z"), expected=0, id="loser")
    first, second = journal.explain("order-1")
    assert (first.kind, first.counted, second.counted, second.winner) == ("append", True, False, first.id)
    journal.catch_up()
    journal.wait_replicated(done[-1])
    assert all(action.replicated for action in journal.explain("order-1"))
    stats = journal.stats()
    assert (stats.appends, stats.replicated_events) == (11, 10)


def test_expired_journals_are_purged(journal: sync.Journal) -> None:
    journal.append("order-1", texts("a"), expire_after=timedelta(0))
    report = journal.purge_expired()
    assert (report.purged, report.refused, report.failed) == ((), (), {})
    with pytest.raises(InvalidInput, match="the last day that is over"):
        journal.purge_expired(date.max)


def test_a_poison_record_is_shown_and_skipped(cw: sync.Client, journal: sync.Journal) -> None:
    journal.append("order-1", texts("a"))
    (partition,) = [action.partition for action in journal.explain("order-1")]
    poison = Batch.of([b"?"], keys=[b"order-1"], headers=[[("journal.action", b"{")]])
    (offset,) = cw.log("orders", partition).append(poison)
    journal.catch_up()
    with pytest.raises(cordwood.Corrupt, match=f"offset {offset}"):
        journal.pointer("order-1")
    (letter,) = journal.dead_letters()
    assert (letter.id, letter.place) == ("order-1", (partition, offset))
    assert journal.skip(partition=partition, offset=offset).id == "order-1"
    assert payloads(journal.read("order-1")) == ["a"]
    with pytest.raises(NotFound):
        journal.skip(partition=partition, offset=offset + 1)


def test_more_events_than_a_chunk_come_whole_and_in_order(journal: sync.Journal) -> None:
    count = 3 * CHUNK_EVENTS_MAX + 7
    journal.append("order-1", [Event.json(number) for number in range(count)])
    assert payloads(journal.read("order-1")) == list(range(count))
    journal.catch_up()
    assert payloads(journal.read("order-1")) == list(range(count))
    with journal.read("order-1") as reader:
        assert next(reader).payload == 0
    assert list(reader) == []


def test_a_follower_gets_each_event_once_it_is_acked(journal: sync.Journal) -> None:
    journal.append("order-1", texts("a"))
    with journal.follow("order-1") as reader:
        assert next(reader).payload == "a"
        for number in range(5):
            journal.append("order-1", [Event.json(number)])
            assert next(reader).payload == number
        journal.purge("order-1")
        assert list(reader) == []


def test_an_error_of_a_reader_reaches_the_thread_that_iterates(journal: sync.Journal) -> None:
    journal.append("order-1", texts("a"))
    with pytest.raises(InvalidInput, match="ends at 1, and start is 3"):
        next(journal.follow("order-1", start=3))
    for wrong in (lambda: journal.read("order-1", start=0), lambda: journal.follow(""), lambda: journal.recover("")):
        with pytest.raises(InvalidInput):
            wrong()


def test_a_follower_that_waits_ends_when_it_is_closed_elsewhere(journal: sync.Journal) -> None:
    reader = journal.follow("order-1")
    seen = threading.Event()

    def read() -> list[object]:
        found: list[object] = []
        for event in reader:
            found.append(event.payload)
            seen.set()
        return found

    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(read)
        journal.append("order-1", texts("news"))
        assert seen.wait(10)
        reader.close()
        assert reading.result(10) == ["news"]


def test_the_end_of_a_connection_ends_a_follower_that_waits(tmp_path: Path) -> None:
    with sync.connect(tmp_path / "data") as cw:
        journal = cw.journal("orders")
        journal.append("order-1", texts("a"))
        reader = journal.follow("order-1")
        next(reader)
        with ThreadPoolExecutor(1) as thread:
            reading = thread.submit(next, reader)
            cw.close()
            with pytest.raises(Unavailable) as closed:
                reading.result(10)
    assert closed.value.reason == "closed"
    with pytest.raises(Unavailable):
        journal.pointer("order-1")


def test_many_threads_append_through_one_journal(journal: sync.Journal) -> None:
    def append(name: int) -> list[int]:
        return [journal.append("order-1", texts(f"{name}.{turn}")).seq_nrs[0] for turn in range(20)]

    with ThreadPoolExecutor(8) as threads:
        numbers = [number for part in threads.map(append, range(8)) for number in part]
    assert sorted(numbers) == list(range(1, 161))
    assert len(set(payloads(journal.read("order-1")))) == 160


def test_each_call_takes_its_own_time_limit(journal: sync.Journal) -> None:
    done = journal.append("order-1", texts("a"))
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: journal.append("order-1", texts("b"), timeout=0),
        "delete": lambda: journal.delete("order-1", through=1, timeout=0),
        "purge": lambda: journal.purge("order-1", timeout=0),
        "position": lambda: journal.position("order-1", timeout=0),
        "save_snapshot": lambda: journal.save_snapshot("order-1", 1, b"", timeout=0),
        "load_snapshot": lambda: journal.load_snapshot("order-1", timeout=0),
        "delete_snapshots": lambda: journal.delete_snapshots("order-1", through=1, timeout=0),
        "catch_up": lambda: journal.catch_up(timeout=0),
        "purge_expired": lambda: journal.purge_expired(timeout=0),
        "dead_letters": lambda: journal.dead_letters(timeout=0),
        "wait_replicated": lambda: journal.wait_replicated(done, timeout=0),
    }
    for name, call in calls.items():
        with pytest.raises(Timeout):
            call()
            pytest.fail(name)


def test_both_twins_use_one_journal(tmp_path: Path, journal: sync.Journal) -> None:
    async def append() -> cordwood.Appended:
        async with cordwood.connect(tmp_path / "data") as cw:
            return await cw.journal("orders").append("order-1", texts("async"), expected=1)

    journal.append("order-1", texts("blocking"))
    assert asyncio.run(append()).seq_nrs == range(2, 3)
    assert payloads(journal.read("order-1")) == ["blocking", "async"]


def test_a_closed_journal_takes_no_call(cw: sync.Client) -> None:
    with cw.journal("orders") as journal:
        journal.append("order-1", texts("a"))
    journal.close()
    with pytest.raises(Unavailable) as closed:
        journal.append("order-1", texts("b"))
    assert closed.value.reason == "closed"
    assert payloads(cw.journal("orders").read("order-1")) == ["a"]

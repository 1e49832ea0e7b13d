"""Every row of the journal's bad input: the error, its reason, and a text with the value and the limit."""

import asyncio
import logging
import math
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cordwood
from cordwood import Conflict, Corrupt, Event, InvalidInput, Journal, NotFound, Position, TooLarge, Unavailable
from cordwood.journal.opening import journal_config
from cordwood.url import parse_url
from tests.support.folder.scripts import program
from tests.support.journal.journals import TOPIC, Clock, Journals, append, read_texts

EVENT = Event.text("x")
MAX = 2**63 - 1

Call = Callable[[Journal, str], Any]


async def run(call: Call, journal: Journal, key: str) -> None:
    """Make the call, and the first step of what it returns."""
    made = call(journal, key)
    if isinstance(made, Awaitable):
        await made
    elif hasattr(made, "__aenter__") and not hasattr(made, "__anext__"):
        async with made:
            pass
    else:
        await anext(made)


CALLS: dict[str, Call] = {
    "append": lambda journal, key: journal.append(key, [EVENT]),
    "delete": lambda journal, key: journal.delete(key, through=1),
    "purge": lambda journal, key: journal.purge(key),
    "read": lambda journal, key: journal.read(key),
    "follow": lambda journal, key: journal.follow(key),
    "pointer": lambda journal, key: journal.pointer(key),
    "position": lambda journal, key: journal.position(key),
    "explain": lambda journal, key: journal.explain(key),
    "save_snapshot": lambda journal, key: journal.save_snapshot(key, 1, b""),
    "load_snapshot": lambda journal, key: journal.load_snapshot(key),
    "delete_snapshots": lambda journal, key: journal.delete_snapshots(key, through=1),
    "recover": lambda journal, key: journal.recover(key),
}
WRITES = {"append", "delete", "purge", "save_snapshot", "delete_snapshots"}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "0 bytes of UTF-8, not 1 to 1,024"),
        ("é" * 513, "1,026 bytes of UTF-8, not 1 to 1,024"),
        ("a\ud800", r"lone surrogate"),
    ],
)
async def test_a_bad_id_is_refused_by_every_call(journals: Journals, key: str, text: str) -> None:
    journal = await journals.open()
    for name, call in CALLS.items():
        with pytest.raises(InvalidInput, match=text) as caught:
            await run(call, journal, key)
        if name in WRITES:
            assert caught.value.outcome == "not_written", name
        with pytest.raises(TypeError):
            await run(call, journal, 7)  # type: ignore[arg-type]


async def test_ids_of_the_limits_are_taken(journals: Journals) -> None:
    journal = await journals.open()
    keys = {"a", "é" * 512, "\n", "x/y\0z"}
    for key in keys:
        await append(journal, key, key)
        assert await read_texts(journal, key) == {1: key}
    await journal.catch_up()
    assert {id async for id in journal.ids()} == keys


APPENDS: dict[str, tuple[dict[str, Any], str]] = {
    "no events": ({"events": []}, "no events"),
    "metadata with NaN": ({"metadata": {"n": math.nan}}, "nan"),
    "metadata with infinity": ({"metadata": [-math.inf]}, "inf"),
    "metadata with a lone surrogate": ({"metadata": "a\ud800"}, "lone surrogate"),
    "the header of the journal": ({"headers": {"journal.action": "x"}}, "'journal.action'"),
    "a header with a lone surrogate": ({"headers": {"h": "\ud800"}}, "'h'"),
    "expected below 0": ({"expected": -1}, f"expected is -1: it is from 0 to {MAX}"),
    "expected beyond 64 bits": ({"expected": 2**63}, f"expected is {2**63}: it is from 0 to {MAX}"),
    "a position below 0": ({"expected": Position(None, -1)}, "expected.seq_nr is -1"),
    "a number beyond 64 bits": ({"expected": MAX}, f"1 events from number {2**63} are not in 1..{MAX}"),
    "an empty id": ({"id": ""}, "id is empty"),
    "an id with a lone surrogate": ({"id": "\ud800"}, "id is not valid Unicode"),
    "a negative expire_after": ({"expire_after": timedelta(seconds=-1)}, "expire_after is -1 day, 23:59:59"),
    "seq_nr without single_writer": ({"seq_nr": 3}, "single_writer=True: use expected=2"),
    "a negative timeout": ({"timeout": -1}, "timeout is -1 seconds"),
}


async def test_an_append_that_cannot_be_encoded_stops_no_later_one(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    changed = Event.text("x")
    msgspec.structs.force_setattr(changed, "raw", b"\xff")
    for expected in (None, 1):
        with pytest.raises((InvalidInput, UnicodeDecodeError)):
            await journal.append("A", [changed], expected=expected)
    assert (await append(journal, "A", "2")).seq_nrs == range(2, 3)
    assert (await append(journal, "A", "3", expected=2)).seq_nrs == range(3, 4)


async def test_a_bad_append_is_refused_before_it_is_sent(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    for name, (arguments, text) in APPENDS.items():
        with pytest.raises(InvalidInput) as caught:
            await journal.append(**{"key": "A", "events": [EVENT], **arguments})
        assert text in str(caught.value), name
        assert caught.value.outcome == "not_written", name
    client = await journals.connect()
    assert await client.log(TOPIC).bounds() == (0, 1)
    assert (await append(journal, "A", "2")).seq_nrs == range(2, 3)


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}, "a\ud800", {"\udfff": 1}])
async def test_an_event_that_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"nan|inf|surrogate"):
        Event.json(value)


async def test_a_text_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        Event.text("a\ud800")
    with pytest.raises(InvalidInput, match="surrogate"):
        Event.text("a", tags={"\ud800"})


WRONG_TYPES: list[dict[str, Any]] = [
    {"events": EVENT},
    {"events": ["x"]},
    {"expected": "1"},
    {"expected": 1.5},
    {"id": 7},
    {"headers": {"h": b"x"}},
    {"expire_after": 7},
    {"keep_expiry": 1},
    {"keep_expiry": "yes"},
    {"expected": Position(5, 1)},  # type: ignore[arg-type]
]


async def test_a_wrong_type_in_an_append_is_a_type_error(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    for arguments in WRONG_TYPES:
        with pytest.raises(TypeError):
            await journal.append(**{"key": "A", "events": [EVENT], **arguments})
    assert await read_texts(journal, "A") == {1: "1"}
    assert (await append(journal, "A", "2")).seq_nrs == range(2, 3)


NUMBERS: dict[str, Callable[[Journal, int], Any]] = {
    "start": lambda journal, number: journal.read("A", start=number),
    "stop": lambda journal, number: journal.read("A", stop=number),
    "start of follow": lambda journal, number: journal.follow("A", start=number),
    "through": lambda journal, number: journal.delete("A", through=number),
    "through of snapshots": lambda journal, number: journal.delete_snapshots("A", through=number),
    "seq_nr": lambda journal, number: journal.save_snapshot("A", number, b""),
    "newest": lambda journal, number: journal.save_snapshot("A", 1, b"", newest=number),
}


async def test_a_number_outside_of_its_limits_is_refused(journals: Journals) -> None:
    journal = await journals.open()
    for name, call in NUMBERS.items():
        for number in (0, -5, 2**63):
            with pytest.raises(InvalidInput, match=f"^{name.split()[0]} is {number}: it is from 1 to {MAX}"):
                made = call(journal, number)
                await (made if isinstance(made, Awaitable) else anext(made))


async def test_until_needs_a_time_zone(journals: Journals) -> None:
    journal = await journals.open()
    with pytest.raises(InvalidInput, match="without a time zone"):
        journal.read("A", until=datetime(2026, 1, 1))
    with pytest.raises(TypeError):
        journal.read("A", until="2026-01-01")  # type: ignore[arg-type]


async def test_an_append_of_a_single_writer_takes_no_condition(journals: Journals) -> None:
    journal = await journals.open(single_writer=True)
    for arguments in ({"expected": 0}, {"id": "x"}):
        with pytest.raises(InvalidInput, match="seq_nr=, and neither expected= nor id=") as caught:
            await append(journal, "A", "1", **arguments)
        assert caught.value.outcome == "not_written"
    for number in (0, 2**63):
        with pytest.raises(InvalidInput, match=f"seq_nr is {number}: it is from 1 to {MAX}"):
            await append(journal, "A", "1", seq_nr=number)
    with pytest.raises(InvalidInput, match=f"2 events from number {MAX}") as beyond:
        await append(journal, "A", "1", "2", seq_nr=MAX)
    assert beyond.value.outcome == "not_written"
    await append(journal, "A", "1", seq_nr=5)
    with pytest.raises(Conflict, match="is at 5, and seq_nr is 5: use 6") as conflict:
        await append(journal, "A", "again", seq_nr=5)
    assert (conflict.value.actual, conflict.value.outcome) == (5, "not_written")


async def test_a_snapshot_beyond_the_end_is_refused(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    with pytest.raises(InvalidInput, match="at 3: the journal is at 2") as caught:
        await journal.save_snapshot("A", 3, b"")
    assert caught.value.outcome == "not_written"
    with pytest.raises(InvalidInput, match="at 1: the journal is at 0"):
        await journal.save_snapshot("none", 1, b"")
    with pytest.raises(TypeError, match="bytes, not str"):
        await journal.save_snapshot("A", 1, "text")  # type: ignore[arg-type]


async def test_a_day_after_yesterday_is_refused(journals: Journals) -> None:
    journal = await journals.open(clock=Clock())  # on 10 March
    for day in (10, 11):
        with pytest.raises(InvalidInput, match=f"on is 2026-03-{day}: the last day that is over is 2026-03-09, UTC"):
            await journal.purge_expired(on=date(2026, 3, day))
    await journal.purge_expired(on=date(2026, 3, 9))
    with pytest.raises(TypeError):
        await journal.purge_expired(on=datetime(2026, 3, 9))


OPENINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no partition": ({"partitions": 0}, "partitions is 0: a topic has at least 1"),
    "a segment of one": ({"segment_size": 1}, "segment_size is 1: it is at least 2"),
    "a segment over 32 bits": ({"segment_size": 2**31}, "segment_size is 2147483648, over the limit of 2147483647"),
    "a negative limit": ({"head_bytes_max": -1}, "head_bytes_max is -1"),
    "a negative keep": ({"keep": timedelta(days=-1)}, "keep is -1 day"),
    "a keep beyond all dates": ({"keep": timedelta.max}, "over the limit of 36500 days"),
    "a fence of no kind": ({"fence": "lock"}, 'fence is \'lock\': it is "mark" or "watermark"'),
    "a store of no scheme": ({"store": "store.db"}, "'store.db' is no store"),
    "a store of an unknown scheme": ({"store": "mysql://x"}, "the scheme 'mysql' is unknown"),
    "a store with a query": ({"store": "sqlite:x.db?mode=ro"}, "takes no settings"),
}


async def test_a_journal_that_cannot_be_made_is_refused(journals: Journals) -> None:
    client = await journals.connect()
    for name, (arguments, text) in OPENINGS.items():
        with pytest.raises(InvalidInput) as caught:
            client.journal(TOPIC, **{"store": journals.kind.store_url, **arguments})
        assert text in str(caught.value), name


async def test_a_mark_on_a_read_only_connection_is_refused(journals: Journals) -> None:
    await append(await journals.open(), "A", "1")
    client = await journals.connect(read_only=True)
    with pytest.raises(InvalidInput, match='fence="mark" writes a Mark, and the connection is read-only'):
        client.journal(TOPIC, store=journals.kind.store_url, fence="mark")


async def test_a_log_without_a_default_store_needs_one() -> None:
    options: dict[str, Any] = {
        "store_config": {},
        "partitions": 1,
        "fence": None,
        "replicate": None,
        "single_writer": False,
        "keep": None,
        "segment_size": 2,
        "head_bytes_max": 0,
        "read_only": False,
    }
    url = parse_url("kafka://broker:9092")
    with pytest.raises(InvalidInput, match="needs a store, and only a folder has one: name store='sqlite:PATH'"):
        journal_config(url, store=None, **options)
    assert journal_config(url, store="sqlite:x.db", **options).fence == "mark"


async def test_settings_of_a_store_that_takes_none_are_refused(journals: Journals) -> None:
    journal = await journals.open(store_config={"password": "secret"})
    with pytest.raises(InvalidInput, match="takes no settings") as caught:
        await journal.pointer("A")
    assert "secret" not in str(caught.value)


async def test_an_append_over_the_limit_is_too_large(journals: Journals) -> None:
    journal = await journals.open()
    client = await journals.connect()
    await append(journal, "A", "1")
    limit = (await client.topic(TOPIC)).batch_bytes_max
    for expected in (None, 1):
        with pytest.raises(TooLarge, match=f"the limit of the topic is {limit}") as caught:
            await journal.append("A", [Event.binary(bytes(limit))], expected=expected)
        assert caught.value.outcome == "not_written"
    assert await client.log(TOPIC).bounds() == (0, 1)
    assert (await append(journal, "A", "2")).seq_nrs == range(2, 3)
    # Just below it goes through.
    await journal.append("B", [Event.binary(bytes(limit - 1000))])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"single_writer": True}, "single_writer is False there, not True"),
        ({"segment_size": 7}, "segment_size is 10000 there, not 7"),
    ],
)
async def test_another_binding_of_the_topic_is_a_conflict(
    journals: Journals, arguments: dict[str, Any], text: str
) -> None:
    await append(await journals.open(), "A", "1")
    other = await journals.open(**arguments)
    for name, call in CALLS.items():
        with pytest.raises(Conflict, match=text) as caught:
            await run(call, other, "A")
        if name in WRITES:
            assert caught.value.outcome == "not_written", name


# --- unavailable, missing, damaged


async def test_a_store_that_cannot_be_written_is_a_permission(journals: Journals) -> None:
    journal = await journals.open(store="sqlite:/proc/store.db")
    with pytest.raises(Unavailable, match=r"/proc/store.db") as caught:
        await append(journal, "A", "1")
    assert (caught.value.reason, caught.value.outcome) == ("permission", "not_written")


async def test_a_store_that_another_program_locks_is_busy(journals: Journals) -> None:
    journal = await journals.open(timeout=1)
    await append(journal, "A", "1")
    path = journals.kind.store_url.removeprefix("sqlite:")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="write lock") as caught:
            await journal.catch_up()
        assert caught.value.reason == "busy"
        assert caught.value.retryable
        # Reads and appends need no lock of the store.
        await append(journal, "A", "2")
        assert await read_texts(journal, "A") == {1: "1", 2: "2"}
        db.execute("ROLLBACK")
    await journal.catch_up()


async def test_a_login_in_the_url_of_a_store_is_refused(journals: Journals) -> None:
    client = await journals.connect()
    with pytest.raises(InvalidInput, match="put username and password into the store's config") as caught:
        client.journal(TOPIC, store="cassandra://user:secret@host/keyspace")
    assert "secret" not in str(caught.value)


FORK = """
from cordwood import Event

def calls(journal, reader):
    return {
        "append": lambda: journal.append("A", [Event.empty()]), "pointer": lambda: journal.pointer("A"),
        "purge": lambda: journal.purge("A"), "catch_up": journal.catch_up, "close": journal.close,
        "read": lambda: anext(journal.read("A")), "next": lambda: anext(reader),
    }

async def child(journal, reader):
    failed = []
    for name, call in calls(journal, reader).items():
        try:
            await asyncio.wait_for(call(), 5)
        except cordwood.Unavailable as error:
            if error.reason == "forked":
                continue
            failed.append(f"{name}: {error.reason}")
        except BaseException as error:
            failed.append(f"{name}: {error!r}")
        else:
            failed.append(f"{name}: went through")
    return failed

async def main():
    cw = await cordwood.connect(url)
    journal = cw.journal("orders")
    await journal.append("A", [Event.empty()])
    reader = journal.read("A")
    pid = os.fork()
    if not pid:
        return journal, reader
    os.waitpid(pid, 0)
    await journal.append("A", [Event.empty()])
    say(await journal.pointer("A"))
    await cw.close()

import threading
loops = asyncio.new_event_loop()
got = loops.run_until_complete(main())
if got is not None:
    results = []
    def run():
        asyncio.events._set_running_loop(None)
        results.append(asyncio.run(child(*got)))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    say(*results)
    os._exit(0)
"""


@pytest.mark.processes
async def test_a_forked_child_uses_no_journal_of_its_parent(tmp_path: Path) -> None:
    with program(FORK, tmp_path / "log") as script:
        assert script.says() == "[]"
        assert script.says() == "2"
        script.ends()


def test_a_journal_belongs_to_the_loop_of_its_first_call(tmp_path: Path) -> None:
    async def begin() -> tuple[cordwood.Client, Journal]:
        client = await cordwood.connect(f"file:{tmp_path / 'log'}")
        journal = client.journal(TOPIC)
        await append(journal, "A", "1")
        return client, journal

    async def use(journal: Journal) -> None:
        for name, call in CALLS.items():
            with pytest.raises(Unavailable, match="another event loop") as caught:
                await run(call, journal, "A")
            assert caught.value.reason == "other-loop", name
        with pytest.raises(Unavailable, match="another event loop"):
            await journal.close()

    first = asyncio.new_event_loop()
    client, journal = first.run_until_complete(begin())
    asyncio.run(use(journal))
    first.run_until_complete(client.close())
    first.close()


def test_a_connection_closes_after_the_loop_of_its_journal(tmp_path: Path) -> None:
    async def begin() -> cordwood.Client:
        client = await cordwood.connect(f"file:{tmp_path / 'log'}")
        await append(client.journal(TOPIC), "A", "1")
        return client

    async def again() -> dict[int, Any]:
        async with cordwood.connect(f"file:{tmp_path / 'log'}") as client:
            return await read_texts(client.journal(TOPIC), "A")

    asyncio.run(asyncio.wait_for(asyncio.run(begin()).close(), 5))
    assert asyncio.run(again()) == {1: "1"}


async def test_a_closed_journal_takes_no_call(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await journal.close()
    await journal.close()
    for name, call in CALLS.items():
        with pytest.raises(Unavailable, match="is closed") as caught:
            await run(call, journal, "A")
        assert caught.value.reason == "closed", name


async def test_a_read_only_journal_needs_topic_and_store(journals: Journals) -> None:
    client = await journals.connect()
    await client.create_topic("other")
    missing = await journals.open(read_only=True)
    with pytest.raises(NotFound, match="'orders'"):
        await missing.pointer("A")
    no_store = await journals.open("other", read_only=True)
    with pytest.raises(NotFound, match=r"store\.db: there is no store here"):
        await no_store.pointer("A")


async def test_a_read_only_journal_writes_nothing(journals: Journals) -> None:
    await append(await journals.open(), "A", "1")
    journal = await journals.open(read_only=True)
    assert await journal.pointer("A") == 1
    calls = {name: call for name, call in CALLS.items() if name in WRITES}
    calls["catch_up"] = lambda journal, _: journal.catch_up()
    calls["purge_expired"] = lambda journal, _: journal.purge_expired()
    calls["skip"] = lambda journal, _: journal.skip(partition=0, offset=0)
    for name, call in calls.items():
        with pytest.raises(Unavailable, match="read-only connection") as caught:
            await run(call, journal, "A")
        assert (caught.value.reason, caught.value.outcome) == ("read-only", "not_written"), name


@pytest.mark.parametrize("content", [b"not a database at all", b"\0" * 100])
async def test_a_file_that_is_no_store_is_corrupt(journals: Journals, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.db"
    file.write_bytes(content)
    journal = await journals.open(store=f"sqlite:{file}")
    with pytest.raises(Corrupt, match=r"other\.db") as caught:
        await append(journal, "A", "1")
    assert caught.value.outcome == "not_written"
    assert file.read_bytes() == content


async def test_the_sqlite_file_of_another_program_is_corrupt(journals: Journals, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t (x)")
    journal = await journals.open(store=f"sqlite:{file}")
    with pytest.raises(Corrupt, match="no store: its application_id is 0x0"):
        await journal.pointer("A")


# --- no error


@pytest.mark.parametrize("replicate", [False, True])
async def test_the_last_number_of_all_is_read(journals: Journals, replicate: bool) -> None:
    journal = await journals.open(single_writer=True)
    await append(journal, "A", "last", seq_nr=MAX)
    if replicate:
        await journal.catch_up()
    assert [event.seq_nr async for event in journal.read("A")] == [MAX]


@pytest.mark.parametrize("replicate", [False, True])
async def test_a_read_beyond_the_end_is_empty(journals: Journals, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "A", "1", "2")
    if replicate:
        await journal.catch_up()
    for key, start in (("A", 3), ("A", MAX), ("none", 1), ("none", 7)):
        assert await read_texts(journal, key, start) == {}
    assert await read_texts(journal, "A", 2, 1) == {}
    assert await read_texts(journal, "A", 2, MAX) == {2: "2"}


@pytest.mark.parametrize("limits", [{"retention": timedelta(days=7)}, {"retention_bytes": 1 << 30}])
async def test_a_topic_with_retention_is_a_warning(
    journals: Journals, limits: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    client = await journals.connect()
    await client.create_topic(TOPIC, **limits)
    with caplog.at_level(logging.WARNING, "cordwood.journal"):
        await append(await journals.open(), "A", "1")
    (record,) = [record for record in caplog.records if record.name == "cordwood.journal"]
    assert f"{next(iter(limits))}=" in record.getMessage()
    caplog.clear()
    await append(await journals.open("without"), "A", "1")
    assert caplog.records == []

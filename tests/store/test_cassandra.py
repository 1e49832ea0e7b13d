"""The store on Cassandra, beyond the suite: its errors, old batches, order of statements, and memory of a page."""

import asyncio
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from cassandra import OperationTimedOut

from cordwood.errors import InvalidInput, TooLarge, Unavailable
from cordwood.store import Deletion, EventStore, KeyChanges, boot_seconds, open_store
from cordwood.store.cassandra import reading, writing
from cordwood.store.cassandra.driver import Bound
from cordwood.store.cassandra.session import FLIGHT_BYTES, Call
from cordwood.store.cassandra.write_time import OLDEST_SECONDS
from cordwood.store.interface import ScanPart, SnapshotGuard
from cordwood.store.segments import head_segments
from cordwood.testing.cassandra import Node
from cordwood.testing.cassandra.probe import execute
from cordwood.testing.servers.ports import free_ports
from cordwood.testing.store.under_test import (
    NEXT_LIFE,
    appended,
    batch,
    bound,
    event,
    events,
    events_of,
    head,
    head_of,
    numbers,
    rows_of,
    snapshot,
    write,
)
from tests.support.store.keyspaces import KEYSPACE, Keyspaces, rows_with

TOPIC = "orders"


@pytest.fixture
async def store(clean_keyspaces: Keyspaces) -> AsyncIterator[EventStore]:
    async with await open_store(clean_keyspaces.url) as store:
        # As a journal binds it: above what earlier tests have deleted.
        await store.bind(TOPIC, bound(base_us=time.time_ns() // 1000))
        yield store


class Crash(Exception):
    """The process ends here."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """End the next write before its n-th statement."""

    def crash_at(number: int) -> None:
        sent = 0
        send = Call.send

        async def counting(self: Call, bound: Bound, *args: Any) -> Any:
            nonlocal sent
            if "UPDATE" in _cql(bound) or "INSERT" in _cql(bound) or "DELETE" in _cql(bound):
                sent += 1
                if sent == number:
                    raise Crash
            return await send(self, bound, *args)

        monkeypatch.setattr(Call, "send", counting)

    return crash_at


def _cql(bound: Bound) -> str:
    prepared = getattr(bound.statement, "prepared_statement", None)
    return "INSERT" if prepared is None else str(prepared.query_string)  # a batch


# --- write times


async def test_a_batch_of_an_hour_ago_writes_nothing(store: EventStore) -> None:
    old = boot_seconds() - OLDEST_SECONDS - 1
    changes = batch(TOPIC, None, 3, appended("order-1", 1, 3))
    assert not await store.write(msgspec.structs.replace(changes, began=old))
    assert await store.pointers(TOPIC) == {}
    assert await head_of(store, TOPIC, "order-1") is None
    assert await store.write(msgspec.structs.replace(changes, began=boot_seconds() - OLDEST_SECONDS + 60))


async def test_a_snapshot_of_an_hour_ago_is_not_saved(store: EventStore) -> None:
    old = boot_seconds() - OLDEST_SECONDS - 1
    assert not await store.save_snapshot(TOPIC, "order-1", snapshot(3), 1, SnapshotGuard(0, 4, old))
    assert await store.save_snapshot(TOPIC, "order-1", snapshot(3), 1, SnapshotGuard(0, 4))
    await store.delete_snapshots(TOPIC, "order-1", snapshot(3).life, 3, SnapshotGuard(0, 4, old))
    assert await store.snapshots(TOPIC, "order-1") == [snapshot(3)]


async def test_batches_in_any_order_end_as_their_log_does(store: EventStore, clean_keyspaces: Keyspaces) -> None:
    first = batch(TOPIC, None, 25, appended("order-1", 1, 25))
    deleted = KeyChanges("order-1", head(25, 26, delete_to=12), deletion=Deletion(26, 12), reached=25)
    new = [event(1, 28, life=NEXT_LIFE)]
    purged = KeyChanges("order-1", head(1, 28, life=NEXT_LIFE), new, purge=27, reached=25)
    then = [batch(TOPIC, 25, 26, deleted), batch(TOPIC, 26, 28, purged)]
    for changes in (first, *then, first, then[0], first, then[1], then[0], first):
        await write(store, changes)
    assert await events_of(store, TOPIC, "order-1") == new
    assert await head_of(store, TOPIC, "order-1") == head(1, 28, life=NEXT_LIFE)
    assert await store.pointers(TOPIC) == {0: 28}
    assert len(rows_with(clean_keyspaces.link, KEYSPACE, TOPIC, "order-1")) == 2


async def test_a_snapshot_saved_after_a_deletion_behind_the_same_fence_stays(store: EventStore) -> None:
    guard = SnapshotGuard(0, 9)
    assert await store.save_snapshot(TOPIC, "order-1", snapshot(3), 1, guard)
    await store.delete_snapshots(TOPIC, "order-1", snapshot(3).life, 9, guard)
    assert await store.save_snapshot(TOPIC, "order-1", snapshot(3), 1, guard)
    assert await store.snapshots(TOPIC, "order-1") == [snapshot(3)]


async def test_a_save_after_the_clock_has_stepped_back_replaces_the_one_before(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fence in (9, 9, 10):
        payload = b"at fence %d" % fence
        now = time.time_ns() - fence * 10**9
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        assert await store.save_snapshot(TOPIC, "order-1", snapshot(3, payload=payload), 1, SnapshotGuard(0, fence))
        assert await store.snapshots(TOPIC, "order-1") == [snapshot(3, payload=payload)]


async def test_of_two_saves_of_one_number_the_later_in_the_log_counts(
    store: EventStore, clean_keyspaces: Keyspaces
) -> None:
    assert await store.save_snapshot(TOPIC, "order-1", snapshot(3), 1, SnapshotGuard(0, 9))
    # Another program saved behind an earlier fence, by a clock that is ahead.
    clean_keyspaces.link.run(
        f"INSERT INTO {KEYSPACE}.cordwood_snapshot (topic, id, life, seq_nr, saved, partition, offset, timestamp,"
        f" payload) VALUES (%s, 'order-1', %s, 3, {2**62}, 0, 7, 1, 0x00)",
        (TOPIC, snapshot(3).life),
    )
    assert await store.snapshots(TOPIC, "order-1") == [snapshot(3)]
    assert await store.save_snapshot(TOPIC, "order-1", snapshot(3, payload=b"new"), 1, SnapshotGuard(0, 10))
    assert await store.snapshots(TOPIC, "order-1") == [snapshot(3, payload=b"new")]


@pytest.mark.parametrize("number", range(1, 22, 2))
async def test_a_write_that_ends_anywhere_is_finished_by_the_next(
    store: EventStore, clean_keyspaces: Keyspaces, crash_at: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = [appended(id, 1, 25) for id in ("order-1", "order-2", "order-3")]
    await write(store, batch(TOPIC, None, 25, *before))
    rows = [event(26, 27)]
    amid = KeyChanges("order-1", head(26, 27, delete_to=12), rows, deletion=Deletion(26, 12), reached=26)
    # Only their head rows say how far the purged ones have reached: they stay until the tombstones are written.
    purged = KeyChanges("order-2", None, purge=29)
    new = KeyChanges("order-3", head(1, 29, life=NEXT_LIFE), [event(1, 29, life=NEXT_LIFE)], purge=28)
    changes = batch(TOPIC, 25, 29, amid, purged, new)
    crash_at(number)
    with pytest.raises(Crash):
        await store.write(changes)
    monkeypatch.undo()
    assert await store.pointers(TOPIC) == {0: 25}
    found = await head_of(store, TOPIC, "order-1")
    assert found is not None
    if found.offset < 26:
        # R25: rows that are gone are below what the head row says. A verdict does not depend on it.
        live = numbers(await events_of(store, TOPIC, "order-1"))
        assert set(range((found.delete_to or 0) + 1, 26)) <= set(live)
        assert found.seq_nr == 25
    await write(store, changes)
    assert numbers(await events_of(store, TOPIC, "order-1")) == list(range(13, 27))
    assert await head_of(store, TOPIC, "order-1") == amid.head
    assert rows_with(clean_keyspaces.link, KEYSPACE, TOPIC, "order-2") == []
    assert len(rows_with(clean_keyspaces.link, KEYSPACE, TOPIC, "order-3")) == 2
    assert await events_of(store, TOPIC, "order-3") == list(new.rows)


# --- batches of any size


async def test_the_time_of_a_store_limits_a_statement_and_no_batch(
    clean_keyspaces: Keyspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Call._once

    async def slow(self: Call, *args: Any) -> Any:
        await asyncio.sleep(0.6)  # four statements of a batch, one after the other, take longer than the store's time
        return await once(self, *args)

    async with await open_store(clean_keyspaces.url, timeout=2) as store:
        await store.bind(TOPIC, bound(base_us=time.time_ns() // 1000))
        await write(store, batch(TOPIC, None, 25, appended("order-1", 1, 25)))
        purged = KeyChanges("order-1", head(1, 27, life=NEXT_LIFE), [event(1, 27, life=NEXT_LIFE)], purge=26)
        monkeypatch.setattr(Call, "_once", slow)
        await write(store, batch(TOPIC, 25, 27, purged))
        monkeypatch.undo()
        assert await head_of(store, TOPIC, "order-1") == purged.head


async def test_a_large_batch_is_not_held_encoded_as_a_whole(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x" * 100_000
    rows = events(1, 600, metadata=text)
    changes = batch(TOPIC, None, 600, KeyChanges("order-1", head(600, segment_size=1000), rows, reached=600))
    held: list[int] = []
    send = Call.send

    async def measuring(self: Call, bound: Bound, *args: Any) -> Any:
        if tracemalloc.is_tracing() and "INSERT" in _cql(bound):
            held.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
        return await send(self, bound, *args)

    monkeypatch.setattr(Call, "send", measuring)
    tracemalloc.start()
    try:
        await write(store, changes)
    finally:
        tracemalloc.stop()
    assert held[0] < writing.KEPT_BYTES + (8 << 20), "60 MB if all of it is encoded at once"
    assert await events_of(store, TOPIC, "order-1") == rows


async def test_large_rows_are_written_a_few_at_once(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = events(1, 80, metadata="x" * (1 << 20))
    flying: list[int] = []
    most = 0
    once = Call._once

    async def noting(self: Call, bound: Bound, *args: Any) -> Any:
        nonlocal most
        flying.append(bound.size)
        most = max(most, sum(flying))
        try:
            return await once(self, bound, *args)
        finally:
            flying.remove(bound.size)

    monkeypatch.setattr(Call, "_once", noting)
    changes = KeyChanges("order-1", head(80, segment_size=1000), rows, reached=80)
    await write(store, batch(TOPIC, None, 80, changes))
    assert 4 << 20 < most <= FLIGHT_BYTES + (2 << 20)
    assert await events_of(store, TOPIC, "order-1") == rows


async def test_a_wrong_value_at_the_end_of_a_large_batch_writes_nothing(
    store: EventStore, clean_keyspaces: Keyspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "KEPT_BYTES", 1)
    rows = [*events(1, 30), event(31, payload_txt="\ud800")]
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await store.write(batch(TOPIC, None, 31, KeyChanges("order-1", head(31), rows, reached=31)))
    assert rows_with(clean_keyspaces.link, KEYSPACE, TOPIC, "order-1") == []


# --- segments


async def test_a_purge_takes_segments_of_the_size_of_the_topic_too(store: EventStore) -> None:
    other = head(3, 0, segment_size=10_000)
    await write(store, batch(TOPIC, None, 0, KeyChanges("order-1", other, events(1, 3, offset=0), reached=3)))
    # The log: Purge at 1, Append 1..25 at 2, Purge at 3. A replicator that has paused writes the first two last.
    await write(store, batch(TOPIC, 0, 3, KeyChanges("order-1", None, purge=3, reached=25)))
    rows = events(1, 25, offset=2, life=NEXT_LIFE)
    late = KeyChanges("order-1", head(25, 2, life=NEXT_LIFE), rows, purge=1, reached=25)
    await write(store, batch(TOPIC, 0, 2, late))
    assert await head_of(store, TOPIC, "order-1") is None
    assert await rows_of(store, TOPIC, ScanPart(None, None)) == []


async def test_a_head_row_is_found_while_it_moves_from_its_old_segment(
    clean_keyspaces: Keyspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = head_segments("order-1")
    assert place.old != place.now
    link = clean_keyspaces.link
    async with await open_store(clean_keyspaces.url) as store, await open_store(clean_keyspaces.url) as writer:
        base = time.time_ns() // 1000
        await store.bind(TOPIC, bound(base_us=base + 1))
        link.run(
            f"INSERT INTO {KEYSPACE}.metajournal (topic, segment, id, partition, offset, segment_size, seq_nr)"
            f" VALUES ('{TOPIC}', {place.old}, 'order-1', 0, 0, 10, 1) USING TIMESTAMP {base}"
        )
        assert await head_of(writer, TOPIC, "order-1") is not None
        moved = KeyChanges("order-1", head(2, 1), [event(2, 1)], reached=2)
        ask_all = Call.ask_all

        async def amid(self: Call, *args: Any) -> Any:
            answers = await ask_all(self, *args)
            monkeypatch.undo()
            await write(writer, batch(TOPIC, None, 1, moved))
            return answers

        monkeypatch.setattr(Call, "ask_all", amid)
        assert await head_of(store, TOPIC, "order-1") == moved.head
        rows = link.run(f"SELECT segment FROM {KEYSPACE}.metajournal WHERE topic = '{TOPIC}' ALLOW FILTERING")
        assert rows == [(place.now,)]


async def test_a_head_row_leaves_its_old_segment_after_it_is_in_the_new_one(
    clean_keyspaces: Keyspaces, crash_at: Any
) -> None:
    place = head_segments("order-1")
    link = clean_keyspaces.link
    async with await open_store(clean_keyspaces.url) as store:
        base = time.time_ns() // 1000
        await store.bind(TOPIC, bound(base_us=base + 1))
        link.run(
            f"INSERT INTO {KEYSPACE}.metajournal (topic, segment, id, partition, offset, segment_size, seq_nr)"
            f" VALUES ('{TOPIC}', {place.old}, 'order-1', 0, 0, 10, 1) USING TIMESTAMP {base}"
        )
        assert await head_of(store, TOPIC, "order-1") is not None
        crash_at(3)  # the row of the event, the head row, and then the old one
        with pytest.raises(Crash):
            await store.write(batch(TOPIC, None, 1, KeyChanges("order-1", head(2, 1), [event(2, 1)], reached=2)))
        rows = link.run(f"SELECT segment FROM {KEYSPACE}.metajournal WHERE topic = '{TOPIC}' ALLOW FILTERING")
        assert sorted(rows) == sorted([(place.now,), (place.old,)])


# --- pages


async def test_large_rows_are_asked_for_a_few_at_a_time(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = events(1, 200, payload_txt="x" * 100_000)
    await write(store, batch(TOPIC, None, 200, KeyChanges("order-1", head(200, segment_size=1000), rows)))
    asked: list[int] = []
    ask = Call.ask

    async def noting(self: Call, cql: str, values: Any = (), fetch_size: Any = None, state: Any = None) -> Any:
        found = await ask(self, cql, values, fetch_size, state)
        if cql == self.cql.events:
            asked.append(len(found.rows))
        return found

    monkeypatch.setattr(Call, "ask", noting)
    found = await events_of(store, TOPIC, "order-1", bytes_max=1 << 20)
    assert numbers(found) == list(range(1, 201))
    assert asked[0] <= 8, "nothing is known of these rows yet"
    assert max(asked[1:]) <= 13, asked


def test_the_size_of_a_query_follows_the_rows_that_it_found() -> None:
    sizes = reading.PageSize(1 << 20)
    assert sizes.rows(0) == 8
    sizes.saw(8, 200)
    assert sizes.rows(8 * 200) == 32
    sizes.saw(32, 200)
    assert sizes.rows(40 * 200) == 160
    sizes.saw(160, 100_000)
    assert sizes.rows(1 << 19) == 7
    sizes.saw(7, 300_000)
    assert sizes.rows(1 << 20) == 2


async def test_a_repeated_query_asks_for_half_as_many_rows(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(store, batch(TOPIC, None, 25, appended("order-1", 1, 25)))
    row = await head_of(store, TOPIC, "order-1")
    assert row is not None
    asked: list[int] = []
    once = Call._once

    async def late(self: Call, bound: Bound, seconds: float, fetch_size: Any, state: Any) -> Any:
        asked.append(fetch_size)
        if len(asked) < 4:
            raise OperationTimedOut()
        return await once(self, bound, seconds, fetch_size, state)

    monkeypatch.setattr(Call, "_once", late)
    page = await store.events(TOPIC, "order-1", row, 1, 26)
    assert numbers(page.rows) == list(range(1, 26))
    assert asked[:4] == [8, 4, 2, 2]


# --- errors


async def test_a_row_that_no_node_takes_is_too_large(store: EventStore) -> None:
    row = event(1, payload_type="binary", payload_txt=None, payload_bin=bytes(17 << 20))
    huge = KeyChanges("order-1", head(1), [row])
    with pytest.raises(TooLarge, match="16 MB"):
        await store.write(batch(TOPIC, None, 1, huge))
    assert await store.pointers(TOPIC) == {}
    await write(store, batch(TOPIC, None, 1, appended("order-1", 1, 1)))


async def test_no_node_at_the_address_is_unreachable() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unavailable, match="no node can be reached") as caught:
        await open_store(f"cassandra://127.0.0.1:{port}/journal", timeout=10)
    assert caught.value.reason == "unreachable"
    assert caught.value.retryable


async def test_files_of_tls_that_are_missing_are_named(cassandra: Node) -> None:
    with pytest.raises(Unavailable, match=r"check tls\.ca") as caught:
        await open_store(f"cassandra://{cassandra.address}/journal", config={"tls.ca": "/nowhere/ca.pem"})
    assert caught.value.reason == "tls"


async def test_a_wrong_config_is_refused_before_it_connects() -> None:
    with pytest.raises(InvalidInput, match="config has user: it may have username"):
        await open_store("cassandra://127.0.0.1:1/journal", config={"user": "secret"})


@pytest.mark.processes
def test_a_missing_driver_names_the_extra() -> None:
    code = (
        "import sys, asyncio; sys.modules['cassandra'] = None; import cordwood; from cordwood.store import open_store\n"
        "try: asyncio.run(open_store('cassandra://host/journal'))\n"
        "except cordwood.Unavailable as error: print(error.reason, error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    said = "cassandra://host:9042/journal needs cassandra-driver: pip install 'cordwood[cassandra]'"
    assert ran.stdout.strip() == f"missing-extra {said}"


@pytest.mark.processes
def test_the_package_loads_no_driver() -> None:
    code = "import sys, cordwood.store, cordwood.testing.cassandra; print('cassandra' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.processes
async def test_a_forked_child_has_no_store(store: EventStore) -> None:
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        said = "nothing"
        try:
            store.pointers(TOPIC).send(None)
        except Unavailable as error:
            said = error.reason
        finally:
            os.write(write_end, said.encode())
            os._exit(0)
    assert os.read(read_end, 100) == b"forked"
    await asyncio.to_thread(os.waitpid, child, 0)
    os.close(read_end)
    os.close(write_end)
    await write(store, batch(TOPIC, None, 1, appended("order-1", 1, 1)))


# --- tombstones


@pytest.mark.slow
async def test_many_saves_leave_few_tombstones() -> None:
    few = {"tombstone_warn_threshold": 50, "tombstone_failure_threshold": 100}
    with Node(few) as node:
        async with await open_store(f"cassandra://{node.address}/journal", timeout=10) as store:
            await store.bind(TOPIC, bound(base_us=time.time_ns() // 1000))
            for number in range(1, 121):
                guard = SnapshotGuard(0, number)
                assert await store.save_snapshot(TOPIC, "order-1", snapshot(number), 2, guard)
                assert await store.save_snapshot(TOPIC, "order-2", snapshot(1), 1, guard)
            assert await store.snapshots(TOPIC, "order-1") == [snapshot(120), snapshot(119)]
            assert await store.snapshots(TOPIC, "order-2") == [snapshot(1)]


# --- logins

SECURE = {
    "authenticator": {"class_name": "org.apache.cassandra.auth.PasswordAuthenticator"},
    "authorizer": {"class_name": "org.apache.cassandra.auth.CassandraAuthorizer"},
    "roles_validity": "0ms",
    "permissions_validity": "0ms",
}
ROOT = ("cassandra", "cassandra")


@pytest.fixture(scope="module")
def secure() -> Iterator[Node]:
    """A node that asks for a login, with a user who may only read."""
    with Node(SECURE, login=ROOT) as node:
        execute(node.address, ["CREATE ROLE reader WITH PASSWORD = 'secret' AND LOGIN = true"], ROOT)
        yield node


@pytest.mark.slow
async def test_a_login_that_is_refused_says_so_without_the_password(secure: Node) -> None:
    url = f"cassandra://{secure.address}/journal"
    for config in ({}, {"username": "cassandra", "password": "wr0ng"}):
        with pytest.raises(Unavailable, match="check username and password") as caught:
            await open_store(url, config=config)
        assert caught.value.reason == "permission"
        assert "wr0ng" not in str(caught.value)


@pytest.mark.slow
async def test_a_keyspace_without_rights_is_a_matter_of_permission(secure: Node) -> None:
    url = f"cassandra://{secure.address}/journal"
    reader = {"username": "reader", "password": "secret"}
    with pytest.raises(Unavailable, match="rights on the keyspace") as caught:
        await open_store(url, config=reader)
    assert caught.value.reason == "permission"
    async with await open_store(url, config={"username": "cassandra", "password": "cassandra"}) as store:
        await store.bind(TOPIC, bound())
        execute(secure.address, ["GRANT SELECT ON KEYSPACE journal TO reader"], ROOT)
        async with await open_store(url, config=reader, read_only=True) as reading:
            assert await reading.binding(TOPIC) == bound()
        async with await open_store(url, config=reader) as writing:
            with pytest.raises(Unavailable, match="rights on the keyspace") as caught:
                await writing.write(batch(TOPIC, None, 1, appended("order-1", 1, 1)))
            assert caught.value.reason == "permission"

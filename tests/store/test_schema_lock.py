"""The tables of a keyspace: made and migrated under the lock of the Scala library, and never touched by a reader."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cordwood.errors import Corrupt, NotFound, Unavailable
from cordwood.store import KeyChanges, open_store
from cordwood.store.cassandra import schema
from cordwood.store.cassandra.driver import Link
from cordwood.store.segments import head_segments
from cordwood.store.url import CassandraUrl, parse_store_url
from cordwood.testing.cassandra import Node
from cordwood.testing.store.under_test import batch, bound, event, write
from cordwood.testing.store.under_test import head as head_row
from tests.support.store.keyspaces import Keyspaces

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUICK = schema.LockTimes(ttl_seconds=2, poll_seconds=0.05)
ONE_COPY = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
VERSION_3 = (
    "CREATE TABLE {0}.journal (id text, topic text, segment bigint, seq_nr bigint, timestamp timestamp, partition int,"
    " offset bigint, origin text, version text, tags set<text>, metadata text, payload_type text, payload_txt text,"
    " payload_bin blob, headers map<text,text>, PRIMARY KEY ((id, topic, segment), seq_nr, timestamp))",
    "CREATE TABLE {0}.metajournal (topic text, segment bigint, id text, partition int, offset bigint, segment_size int,"
    " seq_nr bigint, delete_to bigint, created timestamp, created_date date, updated timestamp, expire_after duration,"
    " expire_on date, origin text, properties map<text,text>, metadata text, PRIMARY KEY ((topic, segment), id))",
    "CREATE TABLE {0}.pointer (topic text, partition int, offset bigint, PRIMARY KEY (topic, partition))",
    "CREATE TABLE {0}.metadata (id text PRIMARY KEY)",
    "CREATE TABLE {0}.setting (key text PRIMARY KEY, value text, timestamp timestamp, origin text, metadata text)",
    "INSERT INTO {0}.setting (key, value) VALUES ('schema-version', '3')",
    "INSERT INTO {0}.metajournal (topic, segment, id, partition, offset, segment_size, seq_nr, created, updated)"
    " VALUES ('orders', {1}, 'order-1', 0, 0, 10, 1, 5, 5)",
    "INSERT INTO {0}.journal (id, topic, segment, seq_nr, timestamp, partition, offset, payload_type, payload_txt)"
    " VALUES ('order-1', 'orders', 0, 1, 5, 0, 0, 'text', 'kept')",
)


@pytest.fixture
def link(keyspaces: Keyspaces) -> Link:
    return keyspaces.link


@pytest.fixture
def url(cassandra: Node, link: Link) -> Iterator[CassandraUrl]:
    url = CassandraUrl((cassandra.address,), f"schema_{secrets.token_hex(4)}")
    yield url
    link.run(f"DROP KEYSPACE IF EXISTS {url.keyspace}")


@pytest.fixture
def old(url: CassandraUrl, link: Link) -> CassandraUrl:
    """A keyspace as a Scala library left it long ago."""
    link.run(f"CREATE KEYSPACE {url.keyspace} WITH replication = {ONE_COPY}")
    for statement in VERSION_3:
        link.run(statement.format(url.keyspace, head_segments("order-1").old))
    return url


def settings(link: Link, url: CassandraUrl) -> dict[str, str]:
    return dict(link.run(f"SELECT key, value FROM {url.keyspace}.setting"))


def columns(link: Link, url: CassandraUrl) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    query = "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = %s"
    for table, column in link.run(query, (url.keyspace,)):
        found.setdefault(table, set()).add(column)
    return found


def migrating(url: CassandraUrl, step: str = "none", ttl: int = 60) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.support.store.migrating", str(url), str(ttl), step]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check_whole(link: Link, url: CassandraUrl) -> None:
    assert settings(link, url) == {"schema-version": "8", "cordwood-schema-version": "1"}
    assert link.run(f"SELECT id FROM {url.keyspace}.locks") == []
    found = columns(link, url)
    assert {"meta_record_id", "headers", "version"} <= found["journal"]
    assert "record_id" in found["metajournal"]
    assert {"pointer2", "cordwood_snapshot", "cordwood_dead_letter"} <= found.keys()
    assert not {"pointer", "metadata"} & found.keys()
    indexes = link.run("SELECT index_name FROM system_schema.indexes WHERE keyspace_name = %s", (url.keyspace,))
    assert sorted(name for (name,) in indexes) == ["metajournal_created_date_idx", "metajournal_expire_on_idx"]


def test_two_processes_make_one_keyspace_at_once(url: CassandraUrl, link: Link) -> None:
    processes = [migrating(url) for _ in range(2)]
    assert [process.communicate(timeout=100)[0] for process in processes] == ["open\n"] * 2
    check_whole(link, url)
    ((replication,),) = link.run(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", (url.keyspace,)
    )
    assert replication["datacenter1"] == "1", "as many copies as nodes, up to three"


@pytest.mark.parametrize("made", [1, 2, 3, 4])
async def test_tables_of_which_some_were_made_are_completed(url: CassandraUrl, link: Link, made: int) -> None:
    link.run(f"CREATE KEYSPACE {url.keyspace} WITH replication = {ONE_COPY}")
    for table in ["locks", *(table for table in schema._TABLES if table != "locks")][:made]:
        link.run(schema._create(url.keyspace, table, schema._TABLES[table]))
    async with await open_store(str(url)) as store:
        assert await store.topics() == []
    check_whole(link, url)


async def test_a_keyspace_at_version_3_is_migrated_with_its_rows(old: CassandraUrl, link: Link) -> None:
    processes = [migrating(old) for _ in range(2)]
    assert [process.communicate(timeout=100)[0] for process in processes] == ["open\n"] * 2
    check_whole(link, old)
    async with await open_store(str(old)) as store:
        # Its head row is in the segment of older versions.
        head = (await store.heads("orders", ["order-1"]))["order-1"]
        page = await store.events("orders", "order-1", head, 1, 2)
        assert [(row.seq_nr, row.payload_txt, row.life) for row in page.rows] == [(1, "kept", None)]
        assert [page async for page in store.ids("orders")] == [["order-1"]]
        # The next write moves it to that of now. A base is the clock of the first use, so above what was there.
        await store.bind("orders", bound(base_us=2**52))
        await write(store, batch("orders", None, 1, KeyChanges("order-1", head_row(2, 1), [event(2, 1)])))
        assert (await store.heads("orders", ["order-1"]))["order-1"] == head_row(2, 1)
        rows = link.run(f"SELECT segment FROM {old.keyspace}.metajournal")
        assert rows == [(head_segments("order-1").now,)]
        assert [page async for page in store.ids("orders")] == [["order-1"]]


async def test_a_purge_takes_the_head_row_of_either_segment(old: CassandraUrl, link: Link) -> None:
    async with await open_store(str(old)) as store:
        assert await store.bind("orders", bound(base_us=2**52)) == bound(base_us=2**52)
        await write(store, batch("orders", None, 1, KeyChanges("order-1", None, purge=1)))
        assert await store.heads("orders", ["order-1"]) == {}
    assert link.run(f"SELECT segment FROM {old.keyspace}.metajournal") == []
    assert link.run(f"SELECT seq_nr FROM {old.keyspace}.journal") == []


@pytest.mark.parametrize("step", ["4", "8"])
def test_a_killed_migration_is_finished_by_the_next_process(old: CassandraUrl, link: Link, step: str) -> None:
    killed = migrating(old, step, ttl=2)
    killed.communicate(timeout=100)
    assert killed.returncode == -9
    assert settings(link, old)["schema-version"] == str(int(step) - 1)
    (next_one,) = [migrating(old)]
    assert next_one.communicate(timeout=100)[0] == "open\n", "the lock of the dead process ends by itself"
    check_whole(link, old)


def test_a_lock_that_is_held_makes_others_wait_and_then_busy(old: CassandraUrl, link: Link) -> None:
    link.run(
        f"CREATE TABLE {old.keyspace}.locks (id text PRIMARY KEY, expiry_ms bigint, timestamp timestamp, metadata text)"
    )
    link.run(f"INSERT INTO {old.keyspace}.locks (id, expiry_ms) VALUES ('kafka-journal', 0) USING TTL 3")
    with pytest.raises(Unavailable, match="another program holds the lock of the schema") as caught:
        schema.prepare_for_writing(link, old, QUICK, timeout=1)
    assert caught.value.reason == "busy"
    assert settings(link, old) == {"schema-version": "3"}
    schema.prepare_for_writing(link, old, QUICK, timeout=30)
    check_whole(link, old)


def test_a_reader_makes_and_migrates_nothing(url: CassandraUrl, link: Link) -> None:
    with pytest.raises(NotFound, match="there is no store here"):
        schema.prepare_for_reading(link, url)
    assert columns(link, url) == {}
    link.run(f"CREATE KEYSPACE {url.keyspace} WITH replication = {ONE_COPY}")
    with pytest.raises(NotFound, match="there is no store here"):
        schema.prepare_for_reading(link, url)
    for statement in VERSION_3:
        link.run(statement.format(url.keyspace, 0))
    before = columns(link, url)
    with pytest.raises(Unavailable, match="open it once for writing") as caught:
        schema.prepare_for_reading(link, url)
    assert caught.value.reason == "version"
    assert columns(link, url) == before


async def test_a_newer_version_is_refused_and_left_alone(old: CassandraUrl, link: Link) -> None:
    put = f"INSERT INTO {old.keyspace}.setting (key, value) VALUES (%s, %s)"
    for key, value, error in (
        ("schema-version", "9", Unavailable),
        ("schema-version", "newest", Corrupt),
        ("schema-version", "3", None),
        ("cordwood-schema-version", "2", Unavailable),
    ):
        link.run(put, (key, value))
        if error is None:
            continue
        for read_only in (False, True):
            with pytest.raises(error) as caught:
                await open_store(str(old), read_only=read_only)
            if error is Unavailable:
                assert caught.value.reason == "version"  # type: ignore[attr-defined]
    assert "record_id" not in columns(link, old)["metajournal"]


def test_an_older_version_of_our_own_tables_is_upgraded(url: CassandraUrl, link: Link) -> None:
    schema.prepare_for_writing(link, url, QUICK, 60)
    newer = [*schema.OWN_STEPS, lambda names: [f"ALTER TABLE {names.keyspace}.cordwood_snapshot ADD more text"]]
    with pytest.raises(Unavailable, match="open it once for writing"):
        schema.prepare_for_reading(link, url, newer)
    schema.prepare_for_writing(link, url, QUICK, 60, newer)
    schema.prepare_for_reading(link, url, newer)
    assert "more" in columns(link, url)["cordwood_snapshot"]
    with pytest.raises(Unavailable, match="use a newer cordwood"):
        schema.prepare_for_writing(link, url, QUICK, 60)


def test_a_data_centre_without_nodes_is_not_found(url: CassandraUrl, link: Link) -> None:
    elsewhere = parse_store_url(str(replace(url, local_dc="elsewhere")))
    assert isinstance(elsewhere, CassandraUrl)
    with pytest.raises(NotFound, match="no node is in the data centre 'elsewhere': there are \\['datacenter1'\\]"):
        schema.prepare_for_writing(link, elsewhere, QUICK, 5)

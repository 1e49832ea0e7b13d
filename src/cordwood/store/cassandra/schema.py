"""The tables of a keyspace, their versions, and how a keyspace gets them.

The first five tables are the Scala library's, with its version in its `setting` row. The tables `cordwood_…` have a
version of their own. Whoever changes a table holds the lock row that the Scala library uses, so that its programs and
ours never change a keyspace at once.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cordwood.errors import CordwoodError, Corrupt, NotFound, Timeout, Unavailable
from cordwood.store.url import CassandraUrl

from .driver import Link

SCALA_VERSION: Final = 8
"""The Scala library's last migration."""

SCALA_KEY: Final = "schema-version"
OWN_KEY: Final = "cordwood-schema-version"
LOCK_ID: Final = "kafka-journal"
COPIES_MAX: Final = 3

_TABLES: Final[Mapping[str, str]] = {
    "locks": "id text PRIMARY KEY, expiry_ms bigint, timestamp timestamp, metadata text",
    "setting": "key text PRIMARY KEY, value text, timestamp timestamp, origin text, metadata text",
    "journal": (
        "id text, topic text, segment bigint, seq_nr bigint, timestamp timestamp, partition int, offset bigint,"
        " origin text, version text, meta_record_id uuid, tags set<text>, metadata text, payload_type text,"
        " payload_txt text, payload_bin blob, headers map<text,text>,"
        " PRIMARY KEY ((id, topic, segment), seq_nr, timestamp)"
    ),
    "metajournal": (
        "topic text, segment bigint, id text, partition int, offset bigint, segment_size int, seq_nr bigint,"
        " delete_to bigint, created timestamp, created_date date, updated timestamp, expire_after duration,"
        " expire_on date, record_id uuid, origin text, properties map<text,text>, metadata text,"
        " PRIMARY KEY ((topic, segment), id)"
    ),
    "pointer2": (
        "topic text, partition int, offset bigint, created timestamp, updated timestamp,"
        " PRIMARY KEY ((topic, partition))"
    ),
}
_INDEXES: Final = {"metajournal_created_date_idx": "created_date", "metajournal_expire_on_idx": "expire_on"}

_OWN: Final[Mapping[str, str]] = {
    # `saved` keeps two saves of one number apart: their fences may be the same, and so their write times.
    "cordwood_snapshot": (
        "topic text, id text, life text, seq_nr bigint, saved bigint, partition int, offset bigint,"
        " timestamp timestamp, payload blob, metadata text, PRIMARY KEY ((topic, id), life, seq_nr, saved)"
    ),
    # The id comes before the offset: a Purge deletes the letters of its key by one range.
    "cordwood_dead_letter": (
        "topic text, partition int, id text, offset bigint, through bigint, reason text, timestamp bigint, key blob,"
        " header blob, value blob, skipped bigint, PRIMARY KEY ((topic, partition), id, offset)"
    ),
    "cordwood_lease": "topic text, partition int, owner text, until bigint, PRIMARY KEY (topic, partition)",
}


class Names(NamedTuple):
    """What a step of a schema needs."""

    keyspace: str
    columns: Mapping[str, frozenset[str]]
    """The columns of each table, before the step."""


Step = Callable[[Names], Sequence[str]]


def _add(table: str, column: str, kind: str) -> Step:
    def step(names: Names) -> Sequence[str]:
        if column in names.columns.get(table, frozenset()):
            return []  # a migration that was killed has done it
        return [f'ALTER TABLE "{names.keyspace}".{table} ADD {column} {kind}']

    return step


def _drop(table: str) -> Step:
    return lambda names: [f'DROP TABLE IF EXISTS "{names.keyspace}".{table}']


MIGRATIONS: Final[Sequence[Step]] = (
    _add("journal", "headers", "map<text,text>"),
    _add("journal", "version", "text"),
    _drop("metadata"),
    lambda names: [],  # pointer2: missing tables are created before
    _add("journal", "meta_record_id", "uuid"),
    _add("metajournal", "record_id", "uuid"),
    _drop("pointer"),
    _drop("metadata"),
    _drop("pointer"),
)
"""The Scala library's: its version is the index of the last one that was applied."""

OWN_STEPS: Final[Sequence[Step]] = (
    lambda names: [_create(names.keyspace, table, columns) for table, columns in _OWN.items()],
)
"""How our tables of each version become those of the next: a change adds a step, and changes no other."""


@dataclass(frozen=True)
class LockTimes:
    """The lock row of the schema: how long it lasts if its holder dies, and how often others look."""

    ttl_seconds: int = 60
    poll_seconds: float = 0.1


class State(NamedTuple):
    """A keyspace as it is."""

    exists: bool
    columns: Mapping[str, frozenset[str]]
    scala: int | None
    """The version of the Scala library's tables; None if nothing says it."""
    own: int

    @property
    def tables(self) -> bool:
        """Whether all tables are there."""
        return all(table in self.columns for table in (*_TABLES, *_OWN))


def prepare_for_writing(
    link: Link,
    url: CassandraUrl,
    lock: LockTimes,
    timeout: float,
    steps: Sequence[Step] = OWN_STEPS,
) -> None:
    """Create the keyspace and its tables, or migrate them, where needed. Blocks."""
    until = time.monotonic() + timeout - min(1.0, timeout / 5)
    state = _look(link, url)
    if not state.exists:
        _create_keyspace(link, url)
    else:
        _check_not_newer(state, url, len(steps))
        if _is_ready(state, len(steps)):
            return
    link.run(_create(url.keyspace, "locks", _TABLES["locks"]))
    with hold_lock(link, url, lock, until):
        state = _look(link, url)  # another process may have done it
        _check_not_newer(state, url, len(steps))
        if not _is_ready(state, len(steps)):
            _migrate(link, url, state, steps)


def prepare_for_reading(link: Link, url: CassandraUrl, steps: Sequence[Step] = OWN_STEPS) -> None:
    """Check that the keyspace has the tables of this version; changes nothing. Blocks."""
    state = _look(link, url)
    missing = [table for table in (*_TABLES, *_OWN) if table not in state.columns]
    if not state.exists or (missing and state.scala is None):
        raise NotFound(f"{url}: there is no store here: check the keyspace, or open it once for writing")
    _check_not_newer(state, url, len(steps))
    if missing or not _is_ready(state, len(steps)):
        raise Unavailable(
            f"{url} has schema version {state.scala} and {state.own} of cordwood's tables, and this program reads"
            f" {SCALA_VERSION} and {len(steps)}: open it once for writing",
            reason="version",
        )


def _is_ready(state: State, own: int) -> bool:
    return state.tables and state.scala == SCALA_VERSION and state.own == own


def _look(link: Link, url: CassandraUrl) -> State:
    names = (url.keyspace,)
    if not link.run("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s", names):
        return State(False, {}, None, 0)
    columns: dict[str, set[str]] = {}
    for table, column in link.run(
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = %s", names
    ):
        columns.setdefault(table, set()).add(column)
    found = {table: frozenset(names) for table, names in columns.items()}
    if "setting" not in found:
        return State(True, found, None, 0)
    own = _version(link, url, OWN_KEY)
    return State(True, found, _version(link, url, SCALA_KEY), 0 if own is None else own)


def _version(link: Link, url: CassandraUrl, key: str) -> int | None:
    rows = link.run(f'SELECT value FROM "{url.keyspace}".setting WHERE key = %s', (key,))
    if not rows or rows[0][0] is None:
        return None
    try:
        return int(rows[0][0])
    except ValueError:
        raise Corrupt(f"{url}: the setting {key} is {rows[0][0]!r}, and no version") from None


def _check_not_newer(state: State, url: CassandraUrl, own: int) -> None:
    if state.scala is not None and state.scala > SCALA_VERSION:
        raise Unavailable(
            f"{url} has schema version {state.scala}, and this program knows {SCALA_VERSION}: use a newer cordwood",
            reason="version",
        )
    if state.own > own:
        raise Unavailable(
            f"{url} has version {state.own} of cordwood's tables, and this program knows {own}: use a newer cordwood",
            reason="version",
        )


def _create_keyspace(link: Link, url: CassandraUrl) -> None:
    here = link.local_dc() if url.local_dc is None else url.local_dc
    nodes = link.nodes_by_dc().get(here, 0)
    if not nodes:
        raise NotFound(f"{url}: no node is in the data centre {here!r}: there are {sorted(link.nodes_by_dc())}")
    link.run(
        f'CREATE KEYSPACE IF NOT EXISTS "{url.keyspace}"'
        f" WITH replication = {{'class': 'NetworkTopologyStrategy', '{here}': {min(COPIES_MAX, nodes)}}}"
    )


def _create(keyspace: str, table: str, columns: str) -> str:
    return f'CREATE TABLE IF NOT EXISTS "{keyspace}".{table} ({columns})'


def _migrate(link: Link, url: CassandraUrl, state: State, steps: Sequence[Step]) -> None:
    fresh = not any(table in state.columns for table in _TABLES if table != "locks")
    for table, columns in _TABLES.items():
        if table not in state.columns:
            link.run(_create(url.keyspace, table, columns))
    for index, column in _INDEXES.items():
        link.run(f'CREATE INDEX IF NOT EXISTS {index} ON "{url.keyspace}".metajournal ({column})')
    # A look again: what was just made is whole, also if another program was killed among the tables.
    names = Names(url.keyspace, _look(link, url).columns)
    if fresh:
        _put_version(link, url, SCALA_KEY, SCALA_VERSION)
    else:
        # Each version is written after its step: a migration that is killed continues there.
        for number in range(0 if state.scala is None else state.scala + 1, SCALA_VERSION + 1):
            for statement in MIGRATIONS[number](names):
                _run_once(link, statement)
            _put_version(link, url, SCALA_KEY, number)
    for number in range(state.own, len(steps)):
        for statement in steps[number](names):
            _run_once(link, statement)
        _put_version(link, url, OWN_KEY, number + 1)
    if state.own == len(steps):  # a table of ours is gone
        for table, columns in _OWN.items():
            link.run(_create(url.keyspace, table, columns))


def _run_once(link: Link, statement: str) -> None:
    """Run a statement that another program may have run: on a busy machine the lock may end before its holder does."""
    try:
        link.run(statement)
    except CordwoodError as error:
        if not any(text in str(error) for text in ("already exists", "conflicts with an existing column")):
            raise


def _put_version(link: Link, url: CassandraUrl, key: str, version: int) -> None:
    link.run(
        f'INSERT INTO "{url.keyspace}".setting (key, value, timestamp) VALUES (%s, %s, toTimestamp(now()))',
        (key, str(version)),
    )


@contextmanager
def hold_lock(link: Link, url: CassandraUrl, times: LockTimes, until: float) -> Iterator[None]:
    """Hold the lock row of the schema; after a while without its holder it ends by itself."""
    locks = f'"{url.keyspace}".locks'
    token = str(uuid.uuid4())
    while not _take(link, locks, token, times):
        if time.monotonic() > until:
            raise Unavailable(
                f"{url}: another program holds the lock of the schema: let it finish; if it died, the lock ends within"
                f" {times.ttl_seconds} s",
                reason="busy",
            )
        time.sleep(times.poll_seconds)
    try:
        yield
    finally:
        # Only our own: if it ran out, another program may hold it now.
        link.run(f"DELETE FROM {locks} WHERE id = %s IF metadata = %s", (LOCK_ID, token))


def _take(link: Link, locks: str, token: str, times: LockTimes) -> bool:
    expiry = int(time.time() + times.ttl_seconds) * 1000
    try:
        answer: Any = link.run(
            f"INSERT INTO {locks} (id, expiry_ms, timestamp, metadata) VALUES (%s, %s, toTimestamp(now()), %s)"
            f" IF NOT EXISTS USING TTL {times.ttl_seconds}",
            (LOCK_ID, expiry, token),
        )
    except Timeout:
        return False  # whether it was written shows at the next try
    if answer[0][0]:
        return True
    found = link.run(f"SELECT metadata FROM {locks} WHERE id = %s", (LOCK_ID,))
    return bool(found) and found[0][0] == token

"""The statements that read. Each function is one short transaction, or several.

Every row is held against its checksum before a value of it is used. Where rows that are missing would not be noticed,
the keys are read from the table and from its second tree, and compared.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date
from itertools import starmap
from typing import Any, Final, NamedTuple

import msgspec
from crc32c import crc32c

from cordwood.store.interface import EventPage, ScanPart, TopicPointers, live_range
from cordwood.store.rows import Binding, DeadLetter, EventRow, HeadRow, Lease, Place, SnapshotRow

from .checksum import begin, check_unmatched, checked, checksum, encode
from .errors import Damage

IDS_PER_QUERY: Final = 500
"""Below the 999 parameters that older versions of SQLite allow."""

KEYS_PER_PAGE: Final = 1000
"""Ids and head rows on one page of a scan."""

ROW_BYTES: Final = 128
"""What a row counts on a page besides its texts and its payload: the numbers, and the objects around them."""

SEQ_NR_MAX: Final = 2**63 - 1

BINDING_PREFIX: Final = "cordwood/"

# The fields of `EventRow`, in their order. A name in brackets is that of the function that decodes the column.
_EVENT: Final = (
    "seq_nr, timestamp, partition, offset, origin, version, meta_record_id, metadata, payload_type, payload_txt,"
    ' payload_bin, tags AS "tags [cordwood_tags]", headers AS "headers [cordwood_headers]"'
)
_METADATA, _TEXT, _BLOB, _TAGS, _HEADERS = 7, 9, 10, 11, 12
_OptionalText = str | None
_EVENT_TYPES: Final = tuple[
    int,
    int,
    int,
    int,
    _OptionalText,
    _OptionalText,
    _OptionalText,
    _OptionalText,
    _OptionalText,
    _OptionalText,
    bytes | None,
    tuple[str, ...] | None,
    dict[str, str] | None,
]

# The fields of `HeadRow`, in their order, between the id and the place that closes the key.
_HEAD: Final = (
    "id, partition, offset, segment_size, seq_nr, created, updated, delete_to, record_id, expire_after,"
    ' expire_on AS "expire_on [cordwood_day]", origin, append_id, closed_partition, closed_offset'
)
_HEAD_TYPES: Final = tuple[
    str,
    int,
    int,
    int,
    int,
    int,
    int,
    int | None,
    _OptionalText,
    int | None,
    date | None,
    _OptionalText,
    _OptionalText,
    int | None,
    int | None,
]
_SNAPSHOT: Final = "life, seq_nr, timestamp, payload, metadata, partition, offset"
_SNAPSHOT_TYPES: Final = tuple[str, int, int, bytes, str | None, int, int]
_LETTER: Final = "partition, offset, through, id, reason, timestamp, key, header, value, skipped"
_LETTER_TYPES: Final = tuple[
    int, int, int | None, str | None, str, int, bytes | None, bytes | None, bytes | None, int | None
]

_decode_binding = msgspec.json.Decoder(Binding).decode


@contextmanager
def one_view(db: sqlite3.Connection) -> Iterator[None]:
    """Let all statements of the block see the same rows."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _compare(what: str, found: Sequence[object], copied: Sequence[object]) -> None:
    """`Damage` if the keys of a table are not those of its second tree."""
    if found != copied:
        differing = sorted(set(found) ^ set(copied), key=str)
        raise Damage(f"{what}: the table and its second tree differ{f' in {differing[0]!r}' if differing else ''}")


# --- topics


def topics(db: sqlite3.Connection) -> list[TopicPointers]:
    """Every topic that is bound or has a pointer, by name."""
    with one_view(db):
        bound = {
            key.removeprefix(BINDING_PREFIX): _decode_binding(value).partitions
            for key, value in _settings(db).items()
            if key.startswith(BINDING_PREFIX) and "/" not in key.removeprefix(BINDING_PREFIX)
        }
        names = sorted(
            name for (name,) in db.execute("SELECT DISTINCT topic FROM pointer2 INDEXED BY pointer2_copy_idx")
        )
        rows = db.execute("SELECT topic, partition FROM pointer2 INDEXED BY sqlite_autoindex_pointer2_1").fetchall()
        copied = db.execute("SELECT topic, partition FROM pointer2 INDEXED BY pointer2_copy_idx").fetchall()
        _compare("the pointers", rows, copied)
        found = {name: _pointer_rows(db, name) for name in names}
    return [
        TopicPointers(
            topic,
            bound.get(topic),
            {partition: offset for partition, offset, _ in found.get(topic, ())},
            max((updated for _, _, updated in found.get(topic, ())), default=None),
        )
        for topic in sorted(bound.keys() | found.keys())
    ]


def _settings(db: sqlite3.Connection) -> dict[str, str]:
    rows = db.execute("SELECT key, value, crc FROM setting INDEXED BY sqlite_autoindex_setting_1").fetchall()
    copied = [key for (key,) in db.execute("SELECT key FROM setting INDEXED BY setting_copy_idx ORDER BY key")]
    found: dict[str, str] = {row[0]: row[1] for row in map(_setting, rows)}
    _compare("the settings", list(found), copied)
    return found


def _setting(row: Sequence[Any]) -> Sequence[Any]:
    return checked(row, begin("setting"), tuple[str, str], f"the setting {row[0]!r}")


def binding(db: sqlite3.Connection, topic: str) -> Binding | None:
    value = setting(db, BINDING_PREFIX + topic)
    return None if value is None else _decode_binding(value)


def setting(db: sqlite3.Connection, key: str) -> str | None:
    with one_view(db):
        row = db.execute(
            "SELECT ?, value, crc FROM setting INDEXED BY sqlite_autoindex_setting_1 WHERE key = ?", (key, key)
        ).fetchone()
        if row is not None:
            return str(_setting(row)[1])
        copied = db.execute("SELECT key FROM setting INDEXED BY setting_copy_idx WHERE key = ?", (key,)).fetchone()
        if copied is not None:
            raise Damage(f"the setting {key!r} is missing")
        return None


def pointers(db: sqlite3.Connection, topic: str) -> dict[int, int]:
    with one_view(db):
        return {partition: offset for partition, offset, _ in _pointer_rows(db, topic)}


def pointer(db: sqlite3.Connection, topic: str, partition: int) -> int | None:
    return pointers(db, topic).get(partition)


def _pointer_rows(db: sqlite3.Connection, topic: str) -> list[Sequence[Any]]:
    """The partition, the offset and the last update of each pointer."""
    begun = begin("pointer2", topic)
    query = (
        "SELECT partition, offset, updated, crc FROM pointer2 INDEXED BY sqlite_autoindex_pointer2_1 WHERE topic = ?"
        " ORDER BY partition"
    )
    what = f"a pointer of {topic!r}"
    rows = [checked(row, begun, tuple[int, int, int], what) for row in db.execute(query, (topic,))]
    query = "SELECT partition FROM pointer2 INDEXED BY pointer2_copy_idx WHERE topic = ? ORDER BY partition"
    _compare(f"the pointers of {topic!r}", [row[0] for row in rows], [at for (at,) in db.execute(query, (topic,))])
    return rows


# --- journals


def heads(db: sqlite3.Connection, topic: str, ids: Sequence[str]) -> dict[str, HeadRow]:
    found: dict[str, HeadRow] = {}
    for at in range(0, len(ids), IDS_PER_QUERY):
        some = ids[at : at + IDS_PER_QUERY]
        with one_view(db):
            query = (
                f"SELECT {_HEAD}, crc FROM metajournal INDEXED BY sqlite_autoindex_metajournal_1"
                f" WHERE topic = ? AND id IN ({_places(some)})"
            )
            page = dict(_heads_of(db.execute(query, (topic, *some)), topic))
            if page.keys() != (wanted := set(some)):
                _check_missing(db, topic, wanted, page.keys())
        found.update(page)
    return found


def _places(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _check_missing(db: sqlite3.Connection, topic: str, wanted: set[str], found: Iterable[str]) -> None:
    """`Damage` if the second tree has an id whose head row was not found, or if another row was found."""
    missing = list(wanted.difference(found))
    query = f"SELECT id FROM metajournal INDEXED BY metajournal_copy_idx WHERE topic = ? AND id IN ({_places(missing)})"
    lost = [id for (id,) in db.execute(query, (topic, *missing))] if missing else []
    lost += set(found) - wanted
    if lost:
        raise Damage(f"the head row of journal {min(lost, key=str)!r} of {topic!r} is missing, or in a wrong place")


def _heads_of(rows: Iterable[Sequence[Any]], topic: str) -> list[tuple[str, HeadRow]]:
    begun = begin("metajournal", topic)
    found: list[tuple[str, HeadRow]] = []
    for row in rows:
        if crc32c(encode(row[:-1]), begun) != row[-1]:
            check_unmatched(row, _HEAD_TYPES, f"the head row of journal {row[0]!r} of {topic!r}")
        closed = None if row[-2] is None else Place(row[-3], row[-2])
        found.append((row[0], HeadRow(*row[1:-4], closed, row[-4])))  # type: ignore[call-arg]
    return found


def first_events(
    db: sqlite3.Connection, topic: str, id: str, start: int, stop: int, bytes_max: int
) -> tuple[HeadRow | None, EventPage | None]:
    """One hop to a thread for both: the hop costs as much as a short read."""
    head = heads(db, topic, [id]).get(id)
    first, last = live_range(head, start, stop)
    return head, events(db, topic, id, first, last, bytes_max) if first < last else None


def events(db: sqlite3.Connection, topic: str, id: str, start: int, stop: int, bytes_max: int) -> EventPage:
    cursor = db.execute(
        f"SELECT {_EVENT}, crc FROM journal WHERE topic = ? AND id = ? AND seq_nr >= ? AND seq_nr <= ?"
        " ORDER BY seq_nr, timestamp",
        (topic, id, start, min(stop - 1, SEQ_NR_MAX)),
    )
    with closing(cursor):
        rows, following = _take_page(cursor, topic, id, bytes_max)
    return EventPage(list(starmap(EventRow, rows)), following)


def _take_page(
    cursor: Iterable[Sequence[Any]], topic: str, id: str, bytes_max: int
) -> tuple[list[Sequence[Any]], int | None]:
    """Rows up to the limit and, unless they are all, the number of the one after them.

    The cursor steps as the loop does, so that SQLite reads one row beyond the page. Rows with one number stay together.
    """
    rows: list[Sequence[Any]] = []
    begun = begin("journal", topic, id)
    size = 0
    for row in cursor:  # one function call per row would cost a tenth of the read
        values = row[:-1]
        if crc32c(encode(values), begun) != row[-1]:
            check_unmatched(row, _EVENT_TYPES, f"event {row[0]!r} of journal {id!r} of {topic!r}")
        size += ROW_BYTES
        if (text := row[_TEXT]) is not None:
            size += len(text) if text.isascii() else len(text.encode())
        elif (blob := row[_BLOB]) is not None:
            size += len(blob)
        if (text := row[_METADATA]) is not None:
            size += len(text) if text.isascii() else len(text.encode())
        if row[_TAGS] is not None or row[_HEADERS] is not None:
            size += _collection_bytes(row[_TAGS], row[_HEADERS])
        if size > bytes_max and rows and rows[-1][0] != row[0]:
            return rows, row[0]
        rows.append(values)
    return rows, None


def _collection_bytes(tags: Sequence[str] | None, headers: Mapping[str, str] | None) -> int:
    texts = (*(tags or ()), *(headers or {}), *(headers or {}).values())
    return sum(len(text.encode()) for text in texts)


def ids_after(db: sqlite3.Connection, topic: str, after: str) -> tuple[list[str], str | None]:
    """A page of the ids after one, in their order, and its end. A key that is only closed has no journal."""
    page = heads_after(db, topic, after, ScanPart(None, None))
    return [id for id, head in page if head.seq_nr > 0], page[-1][0] if page else None


class Expired(NamedTuple):
    """A place in the order of days and ids."""

    day: str
    id: str


def expired_after(db: sqlite3.Connection, topic: str, after: Expired, through: date) -> list[tuple[str, HeadRow]]:
    """A page of the journals that expire after a place, by day and id."""
    query = (
        "SELECT {} FROM metajournal INDEXED BY {} WHERE topic = ? AND (expire_on, id) > (?, ?) AND expire_on <= ?"
        " ORDER BY expire_on, id LIMIT ?"
    )
    values = (topic, *after, through.isoformat(), KEYS_PER_PAGE)
    with one_view(db):
        rows = db.execute(query.format(f"{_HEAD}, crc", "metajournal_expire_on_idx"), values)
        page = _heads_of(rows, topic)
        copied = db.execute(query.format("expire_on, id", "metajournal_expire_on_copy_idx"), values).fetchall()
    found = [("" if head.expire_on is None else head.expire_on.isoformat(), id) for id, head in page]
    _compare(f"the journals of {topic!r} by their last day", found, copied)
    return page


# --- scans


def parts(db: sqlite3.Connection, topic: str, count: int) -> list[ScanPart]:
    """Equal numbers of journals: it walks the keys of the head rows, and touches no event row."""
    (total,) = db.execute("SELECT count(*) FROM metajournal WHERE topic = ?", (topic,)).fetchone()
    step = max(1, -(-total // count))
    bounds: list[str] = []
    after = ""
    query = "SELECT id FROM metajournal WHERE topic = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?"
    while len(bounds) < count - 1:
        # Each query continues at a key: it steps over the rows of one part.
        row = db.execute(query, (topic, after, step if not bounds else step - 1)).fetchone()
        if row is None:
            break
        if not isinstance(row[0], str) or row[0] <= after:
            raise Damage(f"the ids of {topic!r} are out of order")
        after = row[0]
        bounds.append(after)
    return [ScanPart(first, stop) for first, stop in zip([None, *bounds], [*bounds, None], strict=True)]


class Row(NamedTuple):
    """The key of an event row."""

    id: str
    seq_nr: int
    timestamp: int


def heads_after(db: sqlite3.Connection, topic: str, after: str, part: ScanPart) -> list[tuple[str, HeadRow]]:
    """A page of the head rows of a part after an id."""
    until, stop = _until(part)
    first = "" if part.first is None else part.first
    query = (
        "SELECT {} FROM metajournal INDEXED BY {} WHERE topic = ? AND id > ? AND id >= ?"
        f"{until} ORDER BY id LIMIT ?"
    )
    values = (topic, after, first, *stop, KEYS_PER_PAGE)
    with one_view(db):
        page = _heads_of(db.execute(query.format(f"{_HEAD}, crc", "sqlite_autoindex_metajournal_1"), values), topic)
        copied = [id for (id,) in db.execute(query.format("id", "metajournal_copy_idx"), values)]
    _compare(f"the journals of {topic!r}", [id for id, _ in page], copied)
    return page


def rows_after(
    db: sqlite3.Connection, topic: str, after: Row, part: ScanPart, bytes_max: int
) -> tuple[list[tuple[str, EventRow]], Row | None]:
    """A page of the event rows of a part after a key, and the key of its last row unless the part ends there."""
    until, stop = _until(part)
    cursor = db.execute(
        f"SELECT id, {_EVENT}, crc FROM journal WHERE topic = ? AND (id, seq_nr, timestamp) > (?, ?, ?){until}"
        " ORDER BY id, seq_nr, timestamp",
        (topic, *after, *stop),
    )
    page: list[tuple[str, EventRow]] = []
    size = 0
    last: tuple[str, int] | None = None
    with closing(cursor):
        for row in cursor:
            values = row[1:-1]
            if crc32c(encode(values), begin("journal", topic, row[0])) != row[-1]:
                check_unmatched(row[1:], _EVENT_TYPES, f"event {row[1]!r} of journal {row[0]!r} of {topic!r}")
            size += _event_bytes(values)
            if size > bytes_max and last is not None and last != row[:2]:
                return page, Row(*last, page[-1][1].timestamp)
            page.append((row[0], EventRow(*values)))
            last = row[:2]
    return page, None


def _event_bytes(values: Sequence[Any]) -> int:
    """As `_take_page` counts it."""
    size = ROW_BYTES + _collection_bytes(values[_TAGS], values[_HEADERS])
    for text in (values[_TEXT], values[_METADATA]):
        size += 0 if text is None else len(text.encode())
    return size + (0 if values[_TEXT] is not None or values[_BLOB] is None else len(values[_BLOB]))


def _until(part: ScanPart) -> tuple[str, Sequence[str | int]]:
    return ("", ()) if part.stop is None else (" AND id < ?", (part.stop,))


# --- snapshots and dead letters


def snapshots(db: sqlite3.Connection, topic: str, id: str) -> list[SnapshotRow]:
    begun = begin("cordwood_snapshot", topic, id)
    what = f"a snapshot of journal {id!r} of {topic!r}"
    query = "SELECT {} FROM cordwood_snapshot INDEXED BY {} WHERE topic = ? AND id = ? ORDER BY seq_nr DESC, life"
    with one_view(db):
        found = db.execute(query.format(f"{_SNAPSHOT}, crc", "sqlite_autoindex_cordwood_snapshot_1"), (topic, id))
        rows = [checked(row, begun, _SNAPSHOT_TYPES, what) for row in found]
        copied = db.execute(query.format("life, seq_nr", "cordwood_snapshot_copy_idx"), (topic, id)).fetchall()
    _compare(f"the snapshots of journal {id!r} of {topic!r}", [row[:2] for row in rows], copied)
    return [SnapshotRow(*row[:5]) for row in rows]


def dead_letters(db: sqlite3.Connection, topic: str) -> list[DeadLetter]:
    with one_view(db):
        query = (
            f"SELECT {_LETTER}, crc FROM cordwood_dead_letter INDEXED BY sqlite_autoindex_cordwood_dead_letter_1"
            " WHERE topic = ? ORDER BY partition, offset"
        )
        letters = [_letter(topic, row) for row in db.execute(query, (topic,))]
        query = "SELECT partition, offset FROM cordwood_dead_letter INDEXED BY {} WHERE topic = ?"
        copied = db.execute(query.format("cordwood_dead_letter_copy_idx"), (topic,)).fetchall()
    _compare(f"the dead letters of {topic!r}", [letter.place for letter in letters], sorted(copied))
    return letters


def dead_letter(db: sqlite3.Connection, topic: str, place: Place) -> DeadLetter | None:
    """The dead letter of a record. One that is missing is noticed where it is looked for by its key."""
    query = (
        f"SELECT ?, ?, {_LETTER.removeprefix('partition, offset, ')}, crc FROM cordwood_dead_letter"
        " INDEXED BY sqlite_autoindex_cordwood_dead_letter_1 WHERE topic = ? AND partition = ? AND offset = ?"
    )
    row = db.execute(query, (*place, topic, *place)).fetchone()
    return None if row is None else _letter(topic, row)


def _letter(topic: str, row: Sequence[Any]) -> DeadLetter:
    what = f"the dead letter of {topic}/{row[0]!r} at offset {row[1]!r}"
    return DeadLetter(topic, *checked(row, begin("cordwood_dead_letter", topic), _LETTER_TYPES, what))


def dead_letters_of(db: sqlite3.Connection, topic: str, id: str) -> list[DeadLetter]:
    """The dead letters of one key."""
    query = "SELECT partition, offset FROM cordwood_dead_letter INDEXED BY {} WHERE topic = ? AND id = ?"
    places, copied = (
        sorted(db.execute(query.format(index), (topic, id)))
        for index in ("cordwood_dead_letter_id_idx", "cordwood_dead_letter_copy_idx")
    )
    _compare(f"the dead letters of journal {id!r} of {topic!r}", places, copied)
    letters = [dead_letter(db, topic, Place(*place)) for place in places]
    found = [letter for letter in letters if letter is not None and letter.id == id]
    _compare(f"the dead letters of journal {id!r} of {topic!r}", [letter.place for letter in found], copied)
    return found


# --- leases


def leases(db: sqlite3.Connection, topic: str, now: int) -> dict[int, Lease]:
    """The leases that have not ended. A damaged one has: nothing depends on it, and it may never end by itself."""
    begun = begin("cordwood_lease", topic)
    query = "SELECT partition, owner, until, crc FROM cordwood_lease WHERE topic = ?"
    return {
        row[0]: Lease(row[1], row[2])
        for row in db.execute(query, (topic,))
        if checksum(row[:-1], begun) == row[-1] and row[2] > now
    }

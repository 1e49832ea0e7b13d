"""The statements that read. Each function is one short transaction, or several."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import date
from itertools import starmap
from typing import Any, Final, NamedTuple

import msgspec

from cordwood.store.interface import EventPage, ScanPart, TopicPointers, live_range
from cordwood.store.rows import Binding, DeadLetter, EventRow, HeadRow, Lease, Place, SnapshotRow

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

# The fields of `HeadRow`, in their order, between the id and the place that closes the key.
_HEAD: Final = (
    "id, partition, offset, segment_size, seq_nr, created, updated, delete_to, record_id, expire_after,"
    ' expire_on AS "expire_on [cordwood_day]", origin, append_id, closed_partition, closed_offset'
)
_LETTER: Final = "topic, partition, offset, through, id, reason, timestamp, key, header, value, skipped"

_decode_binding = msgspec.json.Decoder(Binding).decode


# --- topics


def topics(db: sqlite3.Connection) -> list[TopicPointers]:
    """Every topic that is bound or has a pointer, by name."""
    bound = {
        key.removeprefix(BINDING_PREFIX): _decode_binding(value).partitions
        # '0' is the character after '/'.
        for key, value in db.execute("SELECT key, value FROM setting WHERE key > 'cordwood/' AND key < 'cordwood0'")
        if "/" not in key.removeprefix(BINDING_PREFIX)
    }
    offsets: dict[str, dict[int, int]] = {}
    updates: dict[str, int] = {}
    for topic, partition, offset, updated in db.execute("SELECT topic, partition, offset, updated FROM pointer2"):
        offsets.setdefault(topic, {})[partition] = offset
        updates[topic] = max(updated, updates.get(topic, updated))
    return [
        TopicPointers(topic, bound.get(topic), offsets.get(topic, {}), updates.get(topic))
        for topic in sorted(bound.keys() | offsets.keys())
    ]


def binding(db: sqlite3.Connection, topic: str) -> Binding | None:
    value = setting(db, BINDING_PREFIX + topic)
    return None if value is None else _decode_binding(value)


def setting(db: sqlite3.Connection, key: str) -> str | None:
    row = db.execute("SELECT value FROM setting WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def pointers(db: sqlite3.Connection, topic: str) -> dict[int, int]:
    return dict(db.execute("SELECT partition, offset FROM pointer2 WHERE topic = ?", (topic,)))


def pointer(db: sqlite3.Connection, topic: str, partition: int) -> int | None:
    row = db.execute("SELECT offset FROM pointer2 WHERE topic = ? AND partition = ?", (topic, partition)).fetchone()
    return None if row is None else int(row[0])


# --- journals


def heads(db: sqlite3.Connection, topic: str, ids: Sequence[str]) -> dict[str, HeadRow]:
    found: dict[str, HeadRow] = {}
    for at in range(0, len(ids), IDS_PER_QUERY):
        some = ids[at : at + IDS_PER_QUERY]
        places = ",".join("?" * len(some))
        found.update(
            _heads_of(
                db.execute(f"SELECT {_HEAD} FROM metajournal WHERE topic = ? AND id IN ({places})", (topic, *some))
            )
        )
    return found


def _heads_of(rows: Iterable[Sequence[Any]]) -> list[tuple[str, HeadRow]]:
    return [
        (row[0], HeadRow(*row[1:-3], None if row[-1] is None else Place(row[-2], row[-1]), row[-3]))  # type: ignore[call-arg]
        for row in rows
    ]


def first_events(
    db: sqlite3.Connection, topic: str, id: str, start: int, stop: int, bytes_max: int
) -> tuple[HeadRow | None, EventPage | None]:
    """One hop to a thread for both: the hop costs as much as a short read."""
    head = heads(db, topic, [id]).get(id)
    first, last = live_range(head, start, stop)
    return head, events(db, topic, id, first, last, bytes_max) if first < last else None


def events(db: sqlite3.Connection, topic: str, id: str, start: int, stop: int, bytes_max: int) -> EventPage:
    cursor = db.execute(
        f"SELECT {_EVENT} FROM journal WHERE topic = ? AND id = ? AND seq_nr >= ? AND seq_nr <= ?"
        " ORDER BY seq_nr, timestamp",
        (topic, id, start, min(stop - 1, SEQ_NR_MAX)),
    )
    rows, following = _take_page(cursor, 0, bytes_max)
    return EventPage(list(starmap(EventRow, rows)), None if following is None else following[0])


def _take_page(cursor: sqlite3.Cursor, first: int, bytes_max: int) -> tuple[list[Sequence[Any]], Sequence[Any] | None]:
    """Rows up to the limit and, unless they are all, the one after them. An event row begins at column `first`.

    The cursor steps as the loop does, so that SQLite reads one row beyond the page. Rows with one number stay together.
    """
    rows: list[Sequence[Any]] = []
    text_at, blob_at, metadata_at, tags_at, headers_at = (
        first + at for at in (_TEXT, _BLOB, _METADATA, _TAGS, _HEADERS)
    )
    size = 0
    with closing(cursor):
        for row in cursor:  # one function call per row would cost a tenth of the read
            size += ROW_BYTES
            if (text := row[text_at]) is not None:
                size += len(text) if text.isascii() else len(text.encode())
            elif (blob := row[blob_at]) is not None:
                size += len(blob)
            if (text := row[metadata_at]) is not None:
                size += len(text) if text.isascii() else len(text.encode())
            if row[tags_at] is not None or row[headers_at] is not None:
                size += _collection_bytes(row[tags_at], row[headers_at])
            if size > bytes_max and rows and rows[-1][: first + 1] != row[: first + 1]:
                return rows, row
            rows.append(row)
    return rows, None


def _collection_bytes(tags: Sequence[str] | None, headers: Mapping[str, str] | None) -> int:
    texts = (*(tags or ()), *(headers or {}), *(headers or {}).values())
    return sum(len(text.encode()) for text in texts)


def ids_after(db: sqlite3.Connection, topic: str, after: str) -> list[str]:
    """A page of the ids after one, in their order. A key that is only closed has no journal."""
    query = "SELECT id FROM metajournal WHERE topic = ? AND id > ? AND seq_nr > 0 ORDER BY id LIMIT ?"
    return [id for (id,) in db.execute(query, (topic, after, KEYS_PER_PAGE))]


class Expired(NamedTuple):
    """A place in the order of days and ids."""

    day: str
    id: str


def expired_after(db: sqlite3.Connection, topic: str, after: Expired, through: date) -> list[tuple[str, HeadRow]]:
    """A page of the journals that expire after a place, by day and id."""
    query = (
        f"SELECT {_HEAD} FROM metajournal"
        " WHERE topic = ? AND (expire_on, id) > (?, ?) AND expire_on <= ? ORDER BY expire_on, id LIMIT ?"
    )
    return _heads_of(db.execute(query, (topic, *after, through.isoformat(), KEYS_PER_PAGE)))


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
    query = f"SELECT {_HEAD} FROM metajournal WHERE topic = ? AND id > ? AND id >= ?{until} ORDER BY id LIMIT ?"
    return _heads_of(db.execute(query, (topic, after, first, *stop, KEYS_PER_PAGE)))


def rows_after(
    db: sqlite3.Connection, topic: str, after: Row, part: ScanPart, bytes_max: int
) -> tuple[list[tuple[str, EventRow]], Row | None]:
    """A page of the event rows of a part after a key, and the key of its last row unless the part ends there."""
    until, stop = _until(part)
    cursor = db.execute(
        f"SELECT id, {_EVENT} FROM journal WHERE topic = ? AND (id, seq_nr, timestamp) > (?, ?, ?){until}"
        " ORDER BY id, seq_nr, timestamp",
        (topic, *after, *stop),
    )
    rows, following = _take_page(cursor, 1, bytes_max)
    page = [(row[0], EventRow(*row[1:])) for row in rows]
    return page, None if following is None else Row(*rows[-1][:3])


def _until(part: ScanPart) -> tuple[str, Sequence[str | int]]:
    return ("", ()) if part.stop is None else (" AND id < ?", (part.stop,))


# --- snapshots and dead letters


def snapshots(db: sqlite3.Connection, topic: str, id: str) -> list[SnapshotRow]:
    query = (
        "SELECT life, seq_nr, timestamp, payload, metadata FROM cordwood_snapshot"
        " WHERE topic = ? AND id = ? ORDER BY seq_nr DESC, life"
    )
    return list(starmap(SnapshotRow, db.execute(query, (topic, id))))


def dead_letters(db: sqlite3.Connection, topic: str) -> list[DeadLetter]:
    query = f"SELECT {_LETTER} FROM cordwood_dead_letter WHERE topic = ? ORDER BY partition, offset"
    return list(starmap(DeadLetter, db.execute(query, (topic,))))


def dead_letter(db: sqlite3.Connection, topic: str, place: Place) -> DeadLetter | None:
    query = f"SELECT {_LETTER} FROM cordwood_dead_letter WHERE topic = ? AND partition = ? AND offset = ?"
    row = db.execute(query, (topic, *place)).fetchone()
    return None if row is None else DeadLetter(*row)


# --- leases


def leases(db: sqlite3.Connection, topic: str, now: int) -> dict[int, Lease]:
    """The leases that have not ended."""
    query = "SELECT partition, owner, until FROM cordwood_lease WHERE topic = ? AND until > ?"
    return {partition: Lease(owner, until) for partition, owner, until in db.execute(query, (topic, now))}

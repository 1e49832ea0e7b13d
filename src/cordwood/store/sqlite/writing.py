"""The statements that write. Each function is a part of one transaction, which its caller begins and commits."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final

import msgspec
from crc32c import crc32c
from msgspec.structs import astuple

from cordwood.errors import NotFound
from cordwood.store.interface import SnapshotGuard
from cordwood.store.rows import Binding, DeadLetter, HeadRow, KeyChanges, PartitionChanges, Place, SnapshotRow
from cordwood.store.segments import head_segments, segment_of

from .checksum import begin, checksum, encode
from .reading import (
    BINDING_PREFIX,
    binding,
    dead_letter,
    dead_letters,
    dead_letters_of,
    heads,
    leases,
    pointer,
    setting,
    snapshots,
)

_encode_json = msgspec.json.Encoder().encode

_DAY_MS: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

# The columns that a checksum covers come last, in the order in which they are read.
_PUT_EVENT: Final = (
    "INSERT OR REPLACE INTO journal (crc, topic, id, segment, seq_nr, timestamp, partition, offset, origin, version,"
    " meta_record_id, metadata, payload_type, payload_txt, payload_bin, tags, headers)"
    f" VALUES ({', '.join('?' * 17)})"
)
_PUT_HEAD: Final = (
    "INSERT OR REPLACE INTO metajournal (crc, topic, segment, created_date, id, partition, offset, segment_size,"
    " seq_nr, created, updated, delete_to, record_id, expire_after, expire_on, origin, append_id, closed_partition,"
    f" closed_offset) VALUES ({', '.join('?' * 19)})"
)
_PUT_LETTER: Final = (
    "INSERT OR {} INTO cordwood_dead_letter (crc, topic, partition, offset, through, id, reason, timestamp, key,"
    f" header, value, skipped) VALUES ({', '.join('?' * 12)})"
)


def write(db: sqlite3.Connection, changes: PartitionChanges, now: int) -> bool:
    """Write a batch, and move its pointer last; False, and nothing written, if the pointer is elsewhere."""
    # R24: another replicator has written these records, or some of them. The rows here are older than its own.
    if pointer(db, changes.topic, changes.partition) != changes.after:
        return False
    _put_dead_letters(db, changes.dead_letters)
    _purge(db, changes)
    _delete(db, changes)
    # Keys are independent of each other, so that one statement serves all of them.
    db.executemany(_PUT_EVENT, _event_values(changes.topic, changes.keys))
    _put_heads(db, changes)
    _put_pointer(db, changes, now)
    return True


def _put_dead_letters(db: sqlite3.Connection, letters: Sequence[DeadLetter]) -> None:
    db.executemany(_PUT_LETTER.format("IGNORE"), map(_letter_values, letters))


def _letter_values(letter: DeadLetter) -> Sequence[Any]:
    topic, *values = astuple(letter)
    return checksum(values, begin("cordwood_dead_letter", topic)), topic, *values


def _purge(db: sqlite3.Connection, changes: PartitionChanges) -> None:
    purged = [(changes.topic, key.id, changes.partition, key.purge) for key in changes.keys if key.purge is not None]
    if not purged:
        return
    names = [key[:2] for key in purged]
    for name in names:  # what decides below which of them stay must be sound
        snapshots(db, *name)
        dead_letters_of(db, *name)
    db.executemany("DELETE FROM journal WHERE topic = ? AND id = ?", names)
    db.executemany("DELETE FROM metajournal WHERE topic = ? AND id = ?", names)
    # R44: the caller that saved a later one has seen this purge.
    db.executemany(
        "DELETE FROM cordwood_snapshot WHERE topic = ? AND id = ? AND NOT (partition = ? AND offset > ?)", purged
    )
    db.executemany(
        "DELETE FROM cordwood_dead_letter WHERE topic = ? AND id = ? AND NOT (partition = ? AND offset > ?)", purged
    )


def _delete(db: sqlite3.Connection, changes: PartitionChanges) -> None:
    db.executemany(
        "DELETE FROM journal WHERE topic = ? AND id = ? AND seq_nr <= ?",
        [(changes.topic, key.id, key.deletion.through) for key in changes.keys if key.deletion is not None],
    )


def _event_values(topic: str, keys: Iterable[KeyChanges]) -> Iterator[Sequence[Any]]:
    for key in keys:
        if not key.rows:
            continue
        assert key.head is not None
        begun = begin("journal", topic, key.id)
        for row in key.rows:
            values = astuple(row)
            crc = crc32c(encode(values), begun)
            if row.tags is not None or row.headers is not None:  # empty ones are stored as null
                crc = checksum((*values[:-2], row.tags or None, row.headers or None), begun)
                values = (*values[:-2], _collection(row.tags), _collection(row.headers))
            yield crc, topic, key.id, segment_of(row.seq_nr, key.head.segment_size), *values


def _collection(values: Sequence[str] | dict[str, str] | None) -> str | None:
    return _encode_json(values).decode() if values else None


def _put_heads(db: sqlite3.Connection, changes: PartitionChanges) -> None:
    topic = changes.topic
    db.executemany(
        "DELETE FROM metajournal WHERE topic = ? AND id = ?",
        [(topic, key.id) for key in changes.keys if key.head is None],
    )
    begun = begin("metajournal", topic)
    db.executemany(
        _PUT_HEAD, [_head_values(topic, begun, key.id, key.head) for key in changes.keys if key.head is not None]
    )
    for key in changes.keys:
        if key.head is not None and key.head.closed is not None:
            _open_if_skipped(db, topic, key.id, key.head.closed)


def _head_values(topic: str, begun: int, id: str, head: HeadRow) -> Sequence[Any]:
    *values, expire_on, origin, closed, append_id = astuple(head)
    rest = (origin, append_id, *(closed or (None, None)))
    crc = crc32c(encode((id, *values, expire_on, *rest)), begun)
    day = None if expire_on is None else expire_on.isoformat()
    return crc, topic, head_segments(id).now, _day_of(head.created), id, *values, day, *rest


def _day_of(ms: int) -> str | None:
    """The UTC day; None for a time that no calendar has."""
    try:
        return date.fromordinal(_EPOCH_DAY + ms // _DAY_MS).isoformat()
    except (ValueError, OverflowError):
        return None


def _open_if_skipped(db: sqlite3.Connection, topic: str, id: str, closed: Place) -> None:
    # R43: an operator may have skipped the record after the replicator folded the batch.
    letter = dead_letter(db, topic, closed)
    if letter is not None and letter.skipped is not None:
        _settle_closed(db, topic, id)


def _settle_closed(db: sqlite3.Connection, topic: str, id: str) -> None:
    """Close the key by its first dead letter that nobody has skipped, or open it."""
    head = heads(db, topic, [id]).get(id)
    if head is None:
        return
    places = [letter.place for letter in dead_letters_of(db, topic, id) if letter.skipped is None]
    if not places and head.seq_nr == 0:
        db.execute("DELETE FROM metajournal WHERE topic = ? AND id = ?", (topic, id))
        return
    head = msgspec.structs.replace(head, closed=min(places, default=None))
    db.execute(_PUT_HEAD, _head_values(topic, begin("metajournal", topic), id, head))


def _put_pointer(db: sqlite3.Connection, changes: PartitionChanges, now: int) -> None:
    crc = checksum((changes.partition, changes.pointer, now), begin("pointer2", changes.topic))
    db.execute(
        "INSERT INTO pointer2 (topic, partition, offset, created, updated, crc) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET offset = excluded.offset, updated = excluded.updated, crc = excluded.crc",
        (changes.topic, changes.partition, changes.pointer, now, now, crc),
    )


# --- settings


def bind(db: sqlite3.Connection, topic: str, wanted: Binding, now: int) -> Binding:
    """Bind a topic unless it is bound (R23)."""
    bound = binding(db, topic)
    if bound is not None:
        return bound
    _put_setting(db, BINDING_PREFIX + topic, _encode_json(wanted).decode(), now)
    return wanted


def rebind(db: sqlite3.Connection, topic: str, held: Binding, wanted: Binding, now: int) -> Binding:
    """Replace a binding, if it is still the one that its caller knows (R23)."""
    bound = binding(db, topic)
    if bound != held:
        return held if bound is None else bound
    _put_setting(db, BINDING_PREFIX + topic, _encode_json(wanted).decode(), now)
    return wanted


def expired_key(topic: str) -> str:
    """The setting that keeps the last day for which `purge_expired` is complete. A topic's name has no '/'."""
    return f"{BINDING_PREFIX}{topic}/expired-through"


def set_expired_through(db: sqlite3.Connection, topic: str, day: date, now: int) -> None:
    """Move the day forward; an older run that ends later moves nothing back."""
    key = expired_key(topic)
    stored = setting(db, key)
    if stored is None or stored < day.isoformat():
        _put_setting(db, key, day.isoformat(), now)


def _put_setting(db: sqlite3.Connection, key: str, value: str, now: int) -> None:
    crc = checksum((key, value), begin("setting"))
    db.execute(
        "INSERT OR REPLACE INTO setting (key, value, timestamp, crc) VALUES (?, ?, ?, ?)", (key, value, now, crc)
    )


# --- snapshots


def save_snapshot(
    db: sqlite3.Connection, topic: str, id: str, snapshot: SnapshotRow, newest: int, guard: SnapshotGuard
) -> bool:
    """Save a snapshot, and keep the newest ones of its life; False, and nothing saved, if the life is another."""
    if not _may_save(db, topic, id, snapshot.life, guard):
        return False
    snapshots(db, topic, id)  # what decides below which of them stay must be sound
    values = (*astuple(snapshot), guard.partition, guard.fence - 1)
    db.execute(
        "INSERT OR REPLACE INTO cordwood_snapshot (crc, topic, id, life, seq_nr, timestamp, payload, metadata,"
        " partition, offset) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (checksum(values, begin("cordwood_snapshot", topic, id)), topic, id, *values),
    )
    db.execute("DELETE FROM cordwood_snapshot WHERE topic = ? AND id = ? AND life <> ?", (topic, id, snapshot.life))
    db.execute(
        "DELETE FROM cordwood_snapshot WHERE topic = ? AND id = ? AND life = ? AND seq_nr <="
        " (SELECT seq_nr FROM cordwood_snapshot WHERE topic = ? AND id = ? AND life = ?"
        " ORDER BY seq_nr DESC LIMIT 1 OFFSET ?)",
        (topic, id, snapshot.life, topic, id, snapshot.life, newest),
    )
    return True


def _may_save(db: sqlite3.Connection, topic: str, id: str, life: str, guard: SnapshotGuard) -> bool:
    # R44: a store that has not reached the fence knows less than the caller. One that has must show the life.
    replicated = pointer(db, topic, guard.partition)
    if replicated is None or replicated < guard.fence - 1:
        return True
    head = heads(db, topic, [id]).get(id)
    return head is not None and head.life == life


def delete_snapshots(
    db: sqlite3.Connection, topic: str, id: str, life: str, through: int, guard: SnapshotGuard
) -> None:
    """Delete the snapshots of a life up to a number; one that was saved behind a later fence stays."""
    snapshots(db, topic, id)  # what decides below which of them stay must be sound
    db.execute(
        "DELETE FROM cordwood_snapshot WHERE topic = ? AND id = ? AND life = ? AND seq_nr <= ?"
        " AND NOT (partition = ? AND offset >= ?)",
        (topic, id, life, through, guard.partition, guard.fence),
    )


# --- dead letters


def skip(db: sqlite3.Connection, topic: str, place: Place, now: int) -> DeadLetter:
    """Skip a dead letter (R43)."""
    letter = dead_letter(db, topic, place)
    if letter is None:
        dead_letters(db, topic)  # raises if it is only missing in the table
        raise NotFound(
            f"{topic}/{place.partition} has no dead letter at offset {place.offset}: dead_letters({topic!r}) lists them"
        )
    if letter.skipped is not None:
        return letter
    letter = msgspec.structs.replace(letter, skipped=now)
    db.execute(_PUT_LETTER.format("REPLACE"), _letter_values(letter))
    if letter.id is not None:
        _settle_closed(db, topic, letter.id)
    return letter


# --- leases


def take_leases(
    db: sqlite3.Connection, topic: str, partitions: Sequence[int], owner: str, now: int, until: int
) -> set[int]:
    """Take the leases that are free or have ended, and renew the owner's; the partitions that it has then."""
    others = {partition for partition, lease in leases(db, topic, now).items() if lease.owner != owner}
    taken = [partition for partition in partitions if partition not in others]
    db.executemany(
        "INSERT OR REPLACE INTO cordwood_lease (topic, partition, owner, until, crc) VALUES (?, ?, ?, ?, ?)",
        [
            (topic, partition, owner, until, checksum((partition, owner, until), begin("cordwood_lease", topic)))
            for partition in taken
        ],
    )
    return set(taken)


def release_leases(db: sqlite3.Connection, topic: str, owner: str) -> None:
    db.execute("DELETE FROM cordwood_lease WHERE topic = ? AND owner = ?", (topic, owner))

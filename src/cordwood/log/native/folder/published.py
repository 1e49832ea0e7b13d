"""The files that the writing process publishes for readers in other processes (R8; docs/formats/published.md).

`published/ends` has a slot for each log. The first half of a slot has the durable end of the log. The writer rewrites
it after every sync and never syncs it: any value that survives a power cut was true before it. The second half has the
first kept offset, and is synced, since trimmed records must stay unreadable. It has two copies, and the writer syncs
one before it overwrites the other, so a power cut during a trim leaves the previous trim point. `published/catalog`
lists the topics with their slots, and is replaced whole. Every part has a CRC: a reader that finds a half-written part
reads it again, or continues without it.

Locks: `_starts_lock` and `_write_lock` are held while a part is written and synced, `_ends_lock` while the file is
opened.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import NamedTuple

from crc32c import crc32c

from cordwood.errors import Corrupt, NotFound
from cordwood.locks import new_lock
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.env.disk import Disk, File, make_durable_folder
from cordwood.log.native.plog import PlogId

METADATA_SLOT = 0

_FOLDER = "published"
_CATALOG = f"{_FOLDER}/catalog"
_CATALOG_NEW = f"{_FOLDER}/catalog.new"
_ENDS = f"{_FOLDER}/ends"
_VERSION = 2
_SLOT_BYTES = 128
_END_BYTES = 64
_START_BYTES = 32
_CRC = struct.Struct("<I")
_END = struct.Struct("<4sIIQQQqQ8x")
_START = struct.Struct("<4sIIQ8x")
_END_MAGIC = b"END\x01"
_START_MAGIC = b"BEG\x01"


class Owner(NamedTuple):
    """The log that a slot belongs to: a reader that finds another owner there has an old catalog."""

    topic_id: int
    partition: int


METADATA_OWNER = Owner(0, 0)


@dataclass(frozen=True)
class PublishedTopic:
    topic: TopicRow
    slot: int
    """The slot of partition 0; the others follow."""

    @cached_property
    def encoded(self) -> str:
        """The topic's entry in the catalog, encoded once: every new topic replaces the whole catalog."""
        return json.dumps({"slot": self.slot, "topic": asdict(self.topic)}, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Catalog:
    cluster: str
    group: str
    metadata_plog: str | None
    epoch: int
    topics: Sequence[PublishedTopic]

    def topic(self, name: str) -> PublishedTopic:
        for published in self.topics:
            if published.topic.name == name:
                return published
        raise NotFound(f"topic {name!r} does not exist: create it with create_topic({name!r})")

    def free_slot(self) -> int:
        """The first slot that no topic has."""
        return max((p.slot + p.topic.partitions for p in self.topics), default=METADATA_SLOT + 1)


class PublishedReader:
    """The reading side; never writes, and needs no writer."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._ends: File | None = None
        self._ends_lock = new_lock("published.ends_file")
        self._decoded: tuple[bytes, Catalog] | None = None

    def catalog(self) -> Catalog | None:
        """The topics, or None if nothing was ever published here."""
        try:
            file = self._disk.open(_CATALOG)
        except FileNotFoundError:
            return None
        try:
            data = bytes(file.read(file.size(), 0))
        finally:
            file.close()
        # A reader of a thousand logs reads the catalog a thousand times, and it seldom changes.
        if self._decoded is None or self._decoded[0] != data:
            self._decoded = data, _decoded_catalog(data)
        return self._decoded[1]

    def end(self, slot: int, owner: Owner, catalog: Catalog) -> Durable | None:
        """The published durable end of this log."""
        return self.end_and_epoch(slot, owner, catalog)[0]

    def end_and_epoch(self, slot: int, owner: Owner, catalog: Catalog) -> tuple[Durable | None, int]:
        """As `end`, with the epoch of the open that published it."""
        ((fields,), _) = _parts(self._file(), slot * _SLOT_BYTES, _END, _END_MAGIC, 1)
        if fields is None or Owner(fields[0], fields[1]) != owner:
            return None, 0
        plog, end, next_offset, max_timestamp, epoch = fields[2:]
        id = PlogId(catalog.cluster, catalog.group, plog) if plog else None
        return Durable(id, end, next_offset, max_timestamp), epoch

    def start(self, slot: int, owner: Owner) -> int | None:
        """The first kept offset, if the log was ever trimmed; `Corrupt` if both copies are damaged (R7)."""
        starts, damaged = _starts(self._file(), slot, owner)
        if damaged == len(starts):
            raise Corrupt(
                f"{_ENDS} is damaged at byte {slot * _SLOT_BYTES + _END_BYTES}: both copies of where partition"
                f" {owner.partition} of topic {owner.topic_id} begins; open the folder for writing once,"
                " which makes them anew"
            )
        return max((start for start in starts if start is not None), default=None)

    def close(self) -> None:
        if self._ends is not None:
            self._ends.close()

    def _file(self) -> File:
        # Without the lock, two threads could both open the file, and one of the two files would never be closed.
        with self._ends_lock:
            if self._ends is None:
                try:
                    self._ends = self._disk.open(_ENDS)
                except FileNotFoundError as error:
                    # The writer creates it before the first catalog. Without it the trim points are unknown.
                    raise Corrupt(f"{_ENDS} is gone: open the folder for writing once, which makes it anew") from error
            return self._ends


class PublishedWriter:
    """The writing side: one per folder, in the process that holds the folder's lock."""

    def __init__(self, disk: Disk, epoch: int) -> None:
        self._disk = disk
        self._epoch = epoch
        self._starts_lock = new_lock("published.starts")
        self._write_lock = new_lock("published.write")
        self._failed_copies: dict[int, int] = {}
        make_durable_folder(disk, _FOLDER)
        try:
            self._ends = disk.open(_ENDS, write=True)
        except FileNotFoundError:
            self._ends = disk.create(_ENDS)
            try:
                self._ends.sync()
                disk.sync_folder(_FOLDER)
            except OSError:
                self._ends.close()
                # Otherwise the next open would treat the name as durable, though it is not.
                disk.remove(_ENDS)
                raise
            return
        try:
            # A killed writer may have left one copy of a start on the disk, and the other in the page cache alone.
            self._ends.sync()
        except OSError:
            self._ends.close()
            raise

    def put_end(self, slot: int, owner: Owner, durable: Durable) -> None:
        plog = 0 if durable.plog is None else durable.plog.random
        body = _END.pack(_END_MAGIC, *owner, plog, durable.end, durable.next_offset, durable.max_timestamp, self._epoch)
        self._write(_CRC.pack(crc32c(body)) + body, slot * _SLOT_BYTES)

    def put_starts(self, starts: Mapping[tuple[int, Owner], int]) -> None:
        """Write the first kept offsets of some logs, by slot, and sync them: trimmed records must stay unreadable (R7).

        One copy is synced before the other is touched, so at every moment one copy is whole and on the disk.
        """
        # One call at a time: a failed sync covers the writes of other callers too, but only one of them gets the error.
        with self._starts_lock:
            parts = []
            for (slot, owner), start in starts.items():
                copies, _ = _starts(self._ends, slot, owner)
                # An open that could not publish a start retries it late: a trim may have moved the start since.
                body = _START.pack(_START_MAGIC, *owner, max(start, *(copy or 0 for copy in copies)))
                parts.append((slot, self._weaker_copy(slot, *copies), _CRC.pack(crc32c(body)) + body))
            self._put_copies([(slot, copy, part) for slot, copy, part in parts])
            # One copy is enough; if the other cannot be written, it is the weaker one from now on.
            with suppress(OSError):
                self._put_copies([(slot, 1 - copy, part) for slot, copy, part in parts])

    def damaged_starts(self) -> list[int]:
        """The slots of which both copies of the start are damaged."""
        data = bytes(self._ends.read(self._ends.size(), 0))
        damaged = []
        for slot in range(len(data) // _SLOT_BYTES):
            at = slot * _SLOT_BYTES + _END_BYTES
            if all(_is_damaged(data[copy : copy + _START_BYTES]) for copy in (at, at + _START_BYTES)):
                damaged.append(slot)
        return damaged

    def _weaker_copy(self, slot: int, first: int | None, second: int | None) -> int:
        if slot in self._failed_copies:
            return self._failed_copies[slot]
        return 1 if first is not None and (second is None or second < first) else 0

    def _put_copies(self, copies: Sequence[tuple[int, int, bytes]]) -> None:
        # The contents are unknown until the sync has succeeded.
        self._failed_copies.update((slot, copy) for slot, copy, _ in copies)
        for slot, copy, part in copies:
            self._write(part, slot * _SLOT_BYTES + _END_BYTES + copy * _START_BYTES)
        self._ends.sync()
        for slot, _, _ in copies:
            del self._failed_copies[slot]

    def put_catalog(self, catalog: Catalog) -> None:
        self._disk.remove(_CATALOG_NEW)
        file = self._disk.create(_CATALOG_NEW)
        try:
            file.write([_encoded_catalog(catalog)], 0)
            file.sync()
        finally:
            file.close()
        self._disk.replace(_CATALOG_NEW, _CATALOG)
        self._disk.sync_folder(_FOLDER)

    def close(self) -> None:
        with self._write_lock:
            self._ends.close()

    def _write(self, part: bytes, position: int) -> None:
        # An open or a trim may call this late. During a close, the kernel could find another file under the descriptor.
        with self._write_lock:
            self._ends.write([part], position)


def _starts(file: File, slot: int, owner: Owner) -> tuple[list[int | None], int]:
    """The first kept offset in both copies, None for another log's copy or a damaged one; and how many are damaged."""
    parts, damaged = _parts(file, slot * _SLOT_BYTES + _END_BYTES, _START, _START_MAGIC, 2)
    starts = [part[2] if part is not None and Owner(part[0], part[1]) == owner else None for part in parts]
    return starts, damaged


def _parts(
    file: File, position: int, layout: struct.Struct, magic: bytes, count: int
) -> tuple[list[tuple[int, ...] | None], int]:
    """Read `count` adjacent parts with one read: a reader alongside the writer does this before each read of records.

    None for a part that was never written, is of another kind, or is damaged; and how many are damaged.
    """
    size = _CRC.size + layout.size
    parts: list[tuple[int, ...] | None] = [None] * count
    damaged = 0
    # A part that is being rewritten while it is read fails its CRC once; one that a power cut tore fails always.
    for _ in range(3):
        damaged = 0
        data = bytes(file.read(count * size, position))
        for number in range(len(data) // size):
            part = data[number * size : (number + 1) * size]
            if _is_damaged(part):
                damaged += 1
                continue
            found, *fields = layout.unpack_from(part, _CRC.size)
            parts[number] = tuple(fields) if found == magic else None
        if not damaged:
            break
    return parts, damaged


def _is_damaged(part: bytes) -> bool:
    """Whether the part was written, and its bytes have changed since."""
    return _CRC.unpack_from(part)[0] != crc32c(part[_CRC.size :]) and any(part)


def _encoded_catalog(catalog: Catalog) -> bytes:
    entries = {
        "cluster": catalog.cluster,
        "epoch": catalog.epoch,
        "group": catalog.group,
        "metadata_plog": catalog.metadata_plog,
    }
    topics = ", ".join(published.encoded for published in catalog.topics)
    body = f'{json.dumps(entries)[:-1]}, "topics": [{topics}], "version": {_VERSION}}}'
    return f"{crc32c(body.encode()):08x}\n{body}\n".encode()


def _decoded_catalog(data: bytes) -> Catalog:
    crc, _, body = data.rstrip(b"\n").partition(b"\n")
    if crc != f"{crc32c(body):08x}".encode():
        raise Corrupt(f"{_CATALOG} is damaged: open the folder for writing once, which makes it anew")
    entries = json.loads(body)
    if not 1 <= (version := entries.pop("version")) <= _VERSION:
        raise Corrupt(f"{_CATALOG} has version {version}; this version of cordwood reads versions 1 to {_VERSION}")
    # Version 1 had no epochs, neither in the catalog nor in the ends: epoch 0 accepts its ends as they are.
    entries.setdefault("epoch", 0)
    topics = [PublishedTopic(TopicRow(**entry["topic"]), entry["slot"]) for entry in entries.pop("topics")]
    return Catalog(topics=topics, **entries)

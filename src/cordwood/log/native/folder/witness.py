"""A file that vouches for the coordinator (R1): a count of the changes that it has confirmed.

docs/formats/witness.md has the format.

If its log of changes is damaged, SQLite treats it as one that ends earlier, and silently returns to an older state. Its
rows are sound, only too old. So each change is counted, and the count is synced here before the call returns. A
coordinator behind its witness has lost confirmed changes, and nothing may be dropped on its word. A coordinator ahead
of its witness is sound: a crash came between the two.

Lock: `WitnessedCoordinator._lock` is held through the sync of the witness, so that it never goes back.
"""

import logging
import struct
from collections.abc import Callable
from typing import TypeVar

from crc32c import crc32c

from cordwood.errors import Conflict, Corrupt, Fenced, NotFound, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.native.coordinator import Coordinator, LogRow, Stamp, TopicRow
from cordwood.log.native.env.disk import Disk, File, make_durable_folder
from cordwood.log.topics import TopicConfig

_FOLDER = "published"
_FILE = f"{_FOLDER}/witness"
_CRC = struct.Struct("<I")
_COPY = struct.Struct("<4sQQq")
_MAGIC = b"WIT\x01"
# Far from each other: a disk writes whole sectors, and a power cut may tear one.
_PLACES = (0, 4096)
_BYTES = 8192

T = TypeVar("T")

_LOGGER = logging.getLogger("cordwood.folder")


class Witness:
    """Two copies of a stamp. `put` overwrites the older one and syncs it, so one copy is whole at every moment."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None
        copies = _read_copies(disk)
        # The newer copy, which is known to be on the disk, or was when it was last read.
        self._copy = copies.index(max(copies, key=_changes))
        self.stamp = copies[self._copy]

    @property
    def where(self) -> object:
        return getattr(self._disk, "root", "this folder")  # not every disk is at a path

    def check(self, found: Stamp) -> None:
        """`Corrupt` if a coordinator with this stamp has lost changes that it had confirmed."""
        if self.stamp is None or self.stamp.changes < found.changes or self.stamp == found:
            return
        raise Corrupt(
            f"{self.where}: coordinator.db has lost changes: it has {found.changes} changes in {found.rows} rows,"
            f" and {self.stamp.changes} in {self.stamp.rows} rows were confirmed in {_FILE};"
            " restore the folder from a copy, or read it with read_only=True"
        )

    def begin(self, found: Stamp) -> None:
        """Vouch for this stamp from now on. The file's space is allocated here, so `put` also works on a full disk."""
        if self.stamp is None and found.changes > 1:
            # The coordinator's rows are sound, and no witness contradicts it: only damage to both files at once could.
            _LOGGER.warning("%s: %s was gone or damaged, and is made anew", self.where, _FILE)
        try:
            self._open()
            if self.stamp != found:
                self.put(found)
        except BaseException:
            self.close()
            raise

    def put(self, stamp: Stamp) -> None:
        """Synced when it returns. After an error, the next call writes the same copy again."""
        assert self._file is not None
        copy = 0 if self.stamp is None else 1 - self._copy
        body = _COPY.pack(_MAGIC, *stamp)
        self._file.write([_CRC.pack(crc32c(body)) + body], _PLACES[copy])
        self._file.sync()
        self.stamp, self._copy = stamp, copy

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        try:
            self._file = self._disk.open(_FILE, write=True)
        except FileNotFoundError:
            # This also makes the name of the coordinator's file durable, which is older than any witness.
            make_durable_folder(self._disk, _FOLDER)
            self._file = self._disk.create(_FILE)
        if self._file.size() < _BYTES:
            self._file.allocate(_BYTES)
        # Data that a killed writer left may be in the page cache alone.
        self._file.sync()
        if self.stamp is None:
            try:
                self._disk.sync_folder(_FOLDER)
            except OSError:
                # R2: otherwise the next open would treat the name as durable, though it is not.
                self._disk.remove(_FILE)
                raise


def witnessed_stamp(disk: Disk) -> Stamp | None:
    """The last confirmed stamp, for a reader; None if there is none."""
    return max(_read_copies(disk), key=_changes)


class WitnessedCoordinator:
    """A coordinator whose every change is confirmed by a witness before the call returns.

    A call that cannot be confirmed raises `Unavailable` with the outcome "unknown": its change is committed, and the
    next call confirms it too. Usable from every thread.
    """

    def __init__(self, coordinator: Coordinator, witness: Witness) -> None:
        found = coordinator.stamp()
        witness.check(found)
        witness.begin(found)
        self._coordinator = coordinator
        self._witness = witness
        # Held through the sync of the witness, so that it never goes back.
        self._lock = new_lock("witness")

    def stamp(self) -> Stamp:
        return self._confirm_after(self._coordinator.stamp)

    def take_over(self) -> int:
        return self._confirm_after(self._coordinator.take_over)

    def create_topic(self, name: str, config: TopicConfig) -> TopicRow:
        return self._confirm_after(lambda: self._coordinator.create_topic(name, config))

    def alter_topic(self, row: TopicRow) -> None:
        self._confirm_after(lambda: self._coordinator.alter_topic(row))

    def delete_topic(self, id: int) -> None:
        self._confirm_after(lambda: self._coordinator.delete_topic(id))

    def topics(self) -> list[TopicRow]:
        return self._confirm_after(self._coordinator.topics)

    def logs(self) -> list[LogRow]:
        return self._confirm_after(self._coordinator.logs)

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        self._confirm_after(lambda: self._coordinator.trim(topic_id, partition, start, next_offset))

    def metadata_plog(self) -> str | None:
        return self._confirm_after(self._coordinator.metadata_plog)

    def set_metadata_plog(self, epoch: int, expected: str | None, id: str) -> None:
        self._confirm_after(lambda: self._coordinator.set_metadata_plog(epoch, expected, id))

    def plan(self) -> str | None:
        return self._confirm_after(self._coordinator.plan)

    def decide(self, plan: str) -> None:
        self._confirm_after(lambda: self._coordinator.decide(plan))

    def finish(self, sink: str, batch: int | None) -> None:
        self._confirm_after(lambda: self._coordinator.finish(sink, batch))

    def sink_batch(self, sink: str) -> int | None:
        return self._confirm_after(lambda: self._coordinator.sink_batch(sink))

    def close(self) -> None:
        self._coordinator.close()
        with self._lock:
            self._witness.close()

    def _confirm_after(self, call: Callable[[], T]) -> T:
        try:
            result = call()
        except (Conflict, Fenced, NotFound):
            # The error may reflect a change that an earlier call made and could not confirm.
            self._confirm()
            raise
        self._confirm()
        return result

    def _confirm(self) -> None:
        """Confirm everything that is committed, which may be more than the caller's change."""
        try:
            with self._lock:
                stamp = self._coordinator.stamp()
                if stamp != self._witness.stamp:
                    self._witness.put(stamp)
        except OSError as error:
            raise Unavailable(
                f"{self._witness.where}: {_FILE}: {error.strerror or error}: a change is stored, but not confirmed;"
                " make the call again when the disk works",
                outcome="unknown",
                reason=reason_of(error),
            ) from error


def _read_copies(disk: Disk) -> list[Stamp | None]:
    """Both copies; None for one that was never written, or is damaged."""
    try:
        file = disk.open(_FILE)
    except FileNotFoundError:
        return [None, None]
    try:
        return [_decoded(bytes(file.read(_CRC.size + _COPY.size, place))) for place in _PLACES]
    finally:
        file.close()


def _decoded(data: bytes) -> Stamp | None:
    body = data[_CRC.size :]
    if len(body) < _COPY.size or _CRC.unpack_from(data)[0] != crc32c(body):
        return None
    magic, *stamp = _COPY.unpack(body)
    return Stamp(*stamp) if magic == _MAGIC else None


def _changes(stamp: Stamp | None) -> int:
    return -1 if stamp is None else stamp.changes

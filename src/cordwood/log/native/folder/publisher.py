"""Publishes the state of a folder for readers in other processes, and retries after a failure.

Locks: `_lock` is held while the catalog is replaced, `_metadata_lock` while the end of the metadata is published.
"""

from collections.abc import Mapping
from contextlib import suppress

from cordwood.errors import CordwoodError, Corrupt
from cordwood.locks import new_lock
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.env.disk import Disk

from .published import (
    METADATA_OWNER,
    METADATA_SLOT,
    Catalog,
    Owner,
    PublishedReader,
    PublishedTopic,
    PublishedWriter,
)


class Publisher:
    """The topics with their slots, where logs begin and end, and the latest metadata plog.

    The coordinator and the plogs have all of it already, so a failure to publish fails no call: `again` retries it.
    `topics` is replaced, never changed.
    """

    def __init__(
        self,
        disk: Disk,
        cluster: str,
        group: str,
        epoch: int,
        rows: list[TopicRow],
        trimmed: Mapping[Owner, tuple[int, int]],
        metadata_plog: str | None,
    ) -> None:
        self._reader = PublishedReader(disk)
        self._before = _readable_catalog(self._reader)
        self.writer = PublishedWriter(disk, epoch)
        self._cluster = cluster
        self._group = group
        self._epoch = epoch
        self.topics = _with_slots(rows, self._before)
        self.metadata_plog = metadata_plog
        # One open never assigns a slot twice: a log that is being deleted may still publish its last end.
        self._free_slot = self._catalog().free_slot()
        self._lock = new_lock("publisher.catalog")
        self._catalog_due = False
        self._metadata_lock = new_lock("publisher.metadata_end")
        self._metadata_due: Durable | None = None
        self._starts_due = self._trimmed_starts(trimmed)

    def check_coordinator(self) -> None:
        """`Corrupt` if the coordinator has lost its rows: the open would sweep away every plog that no chain names."""
        told = None if self._before is None else self._before.metadata_plog
        if self.metadata_plog is None and told is not None:
            raise Corrupt(
                f"the coordinator knows of no plog, but readers know {told}: it has lost changes;"
                " restore the folder from a copy, or read it with read_only=True"
            )

    def end_before(self, slot: int, owner: Owner) -> Durable | None:
        """The end that the previous writer has published, if it is known."""
        return None if self._before is None else self._reader.end(slot, owner, self._before)

    def add(self, row: TopicRow) -> None:
        self.topics = {**self.topics, row.name: PublishedTopic(row, self._free_slot)}
        self._free_slot += row.partitions
        self.put_catalog()

    def alter(self, row: TopicRow) -> None:
        self.topics = {**self.topics, row.name: PublishedTopic(row, self.topics[row.name].slot)}
        self.put_catalog()

    def remove(self, name: str) -> None:
        self.topics = {other: topic for other, topic in self.topics.items() if other != name}
        self.put_catalog()

    def put_catalog(self) -> bool:
        """False if that failed; `again` then retries it."""
        with self._lock:
            try:
                self.writer.put_catalog(self._catalog())
            except OSError:
                self._catalog_due = True
                return False
            self._catalog_due = False
            return True

    def put_starts(self) -> None:
        """Publish where the logs begin that were trimmed before this open, unless that is done."""
        if not self._starts_due:
            return
        try:
            self.writer.put_starts(self._starts_due)
        except OSError:
            return
        self._starts_due = {}

    def again(self) -> None:
        """Retry everything that is due; the timer calls it regularly."""
        with self._metadata_lock:
            self._put_metadata_end(self._metadata_due)
        if self._catalog_due:
            self.put_catalog()
        self.put_starts()

    def on_metadata_durable(self, durable: Durable) -> None:
        with self._metadata_lock:
            self._put_metadata_end(durable)

    def _put_metadata_end(self, durable: Durable | None) -> None:
        # Until this succeeds, readers find less of the metadata; readers without a writer search its tail.
        self._metadata_due = durable
        if durable is not None:
            with suppress(OSError):
                self.writer.put_end(METADATA_SLOT, METADATA_OWNER, durable)
                self._metadata_due = None

    def on_metadata_rollover(self, durable: Durable) -> bool:
        """Publish the new metadata plog; False if that failed, and the old one must stay for readers."""
        self.metadata_plog = str(durable.plog)
        self.on_metadata_durable(durable)
        return self.put_catalog()

    def close(self) -> None:
        self.writer.close()
        self._reader.close()

    def _catalog(self) -> Catalog:
        return Catalog(self._cluster, self._group, self.metadata_plog, self._epoch, list(self.topics.values()))

    def _trimmed_starts(self, trimmed: Mapping[Owner, tuple[int, int]]) -> dict[tuple[int, Owner], int]:
        """Where the trimmed logs begin, by slot (R7).

        An open publishes all of them again. After a crash, a published start may be in the page cache alone; after
        damage to the catalog, it may be in the slot of another log. The open also restores the start of a log whose
        copies are both damaged.
        """
        slots = {published.topic.id: published.slot for published in self.topics.values()}
        known = [(x, start) for x, (start, _) in trimmed.items() if x.topic_id in slots]
        starts = {(slots[x.topic_id] + x.partition, x): start for x, start in known}
        damaged: set[int] = set()
        with suppress(OSError):
            damaged.update(self.writer.damaged_starts())
        for published in self.topics.values() if damaged else ():
            for partition in range(published.topic.partitions):
                if published.slot + partition in damaged:
                    starts.setdefault((published.slot + partition, Owner(published.topic.id, partition)), 0)
        return starts


def _with_slots(rows: list[TopicRow], before: Catalog | None) -> dict[str, PublishedTopic]:
    """Topics keep the slots that they had: recovery may begin at the ends published there."""
    known = {} if before is None else {published.topic.id: published.slot for published in before.topics}
    free = max([METADATA_SLOT + 1, *(known[row.id] + row.partitions for row in rows if row.id in known)])
    topics = {}
    for row in rows:
        if row.id not in known:
            known[row.id] = free
            free += row.partitions
        topics[row.name] = PublishedTopic(row, known[row.id])
    return topics


def _readable_catalog(published: PublishedReader) -> Catalog | None:
    try:
        return published.catalog()
    except CordwoodError:
        # This open writes a new catalog; without the old one recovery reads a little more.
        return None

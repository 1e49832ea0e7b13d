"""A folder as a reader sees it: alongside the writing process, or without one.

R8: takes no lock, writes and repairs nothing.

Lock: `FolderObserver._lock` is held while the metadata is read.
"""

from collections.abc import Callable

from cordwood.errors import Corrupt, NotFound, Unavailable
from cordwood.locks import new_lock
from cordwood.log.native.chain.chain import Chain
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.env.disk import Disk
from cordwood.log.native.folder.witness import witnessed_stamp
from cordwood.log.native.metadata.reading import apply_batch, read_records
from cordwood.log.native.plog import PlogId, PlogStore, find_tail, sealed_end
from cordwood.log.native.stream.reading.blocks import stored_batches
from cordwood.log.native.stream.reading.cursor import Extent
from cordwood.log.native.stream.recovery import readable_end

from .published import METADATA_OWNER, METADATA_SLOT, Catalog, Owner, PublishedReader, PublishedTopic

_TRIES = 20


class FolderObserver:
    """Topics and logs of a folder, as far as they are published."""

    def __init__(self, disk: Disk, writer_alive: Callable[[], bool]) -> None:
        self._disk = disk
        self.plogs = PlogStore(disk)
        self._where: object = getattr(disk, "root", "this folder")  # not every disk is at a path
        self.writer_alive = writer_alive
        self.published = PublishedReader(disk)
        self._lock = new_lock("observer.metadata")
        self._metadata: tuple[PlogId, int] | None = None
        self._chains: dict[str, Chain] = {}

    def catalog(self) -> Catalog:
        catalog = self._read_catalog()
        if catalog is None:
            raise NotFound(f"nothing was ever written to {self._where}: create a topic in it first")
        return catalog

    def topics(self) -> list[TopicRow]:
        catalog = self._read_catalog()
        return [] if catalog is None else [published.topic for published in catalog.topics]

    def topic(self, name: str) -> TopicRow:
        return self.catalog().topic(name).topic

    def log(self, topic: str, partition: int) -> "ObservedLog":
        catalog = self.catalog()
        published = catalog.topic(topic)
        if partition >= published.topic.partitions:
            raise NotFound(
                f"topic {topic!r} has no partition {partition}:"
                f" its partitions are 0 to {published.topic.partitions - 1}"
            )
        return ObservedLog(self, catalog, published, partition)

    def chain(self, service: str, catalog: Catalog, published: PlogId | None) -> Chain:
        """The plogs of a log, as far as the metadata stream is known to be durable.

        `published` is the plog of the log's published end: the writer recorded the rollover to it before it published
        that end.
        """
        with self._lock:
            for _ in range(_TRIES):
                try:
                    durable, tail = self._read_metadata(catalog)
                    chain = self._chains.get(service, Chain())
                    if durable.plog is None or published is None or chain.place_of(published) >= 0:
                        return chain
                    return self._chain_up_to(published, service, chain, durable.plog, durable.end, tail)
                except NotFound:
                    # The metadata stream rolled over to another plog during the read.
                    self._metadata, catalog = None, self.catalog()
        if self._is_lost(catalog.metadata_plog):
            raise Corrupt(
                f"{self._where}: plog {catalog.metadata_plog} is gone, and it has the list of all others:"
                " restore the folder from a copy"
            )
        raise Unavailable(
            "the folder's metadata could not be read: its plogs vanish while they are read; try again", reason="failed"
        )

    def _is_lost(self, latest: str | None) -> bool:
        """Whether this metadata plog is missing, though no later one is published.

        A writer publishes the next one before it deletes this one.
        """
        if latest is None or PlogId.parse(latest).random in self.plogs.files():
            return False
        return self.catalog().metadata_plog == latest

    def epoch(self, catalog: Catalog) -> int:
        """The epoch of the latest open. An open without room for a catalog has at least published the end of its
        metadata.
        """
        return max(catalog.epoch, self.published.end_and_epoch(METADATA_SLOT, METADATA_OWNER, catalog)[1])

    def close(self) -> None:
        self.published.close()

    def _read_catalog(self) -> Catalog | None:
        """The catalog; None if nothing was ever published, and `Corrupt` if a published catalog is missing (R1)."""
        catalog = self.published.catalog()
        if catalog is None and (self.plogs.files() or self._holds_topics()):
            # The catalog is older than the first topic and plog: the writer may have created all three since the first
            # look.
            catalog = self.published.catalog()
            if catalog is None:
                raise Corrupt(
                    f"{self._where} has topics or plogs, but its published/catalog is gone: open the folder for writing"
                    " once, which makes it anew"
                )
        return catalog

    def _holds_topics(self) -> bool:
        stamp = witnessed_stamp(self._disk)
        return stamp is not None and stamp.rows > 0

    def _read_metadata(self, catalog: Catalog) -> tuple[Durable, int]:
        """Read from the last known position to the durable end. Return that end, and the end of the whole frames after
        it.
        """
        durable, tail = self._metadata_end(catalog)
        if durable.plog is None:
            self._chains = {}
            return durable, tail
        start = 0
        if self._metadata is not None and self._metadata[0] == durable.plog and self._metadata[1] <= durable.end:
            start = self._metadata[1]
        chains = dict(self._chains) if start else {}
        read_records(self.plogs, durable.plog, start, durable.end, chains)
        self._chains, self._metadata = chains, (durable.plog, durable.end)
        return durable, tail

    def _chain_up_to(self, published: PlogId, service: str, chain: Chain, plog: PlogId, start: int, end: int) -> Chain:
        """The chain with the records after the durable end, if they lead to the published plog; else the chain
        unchanged.
        """
        chains = dict(self._chains)
        for batch in stored_batches(self.plogs, plog, start, end):
            apply_batch(chains, batch)
            longer = chains.get(service, Chain())
            if longer.place_of(published) >= 0:
                return longer
        return chain

    def _metadata_end(self, catalog: Catalog) -> tuple[Durable, int]:
        published = self.published.end(METADATA_SLOT, METADATA_OWNER, catalog)
        if published is not None and published.plog is not None and self.writer_alive():
            return published, published.end
        # Without a writer the slot may be older than the catalog, which is synced.
        if catalog.metadata_plog is None:
            return Durable(None, 0, 0), 0
        latest = PlogId.parse(catalog.metadata_plog)
        start = published.end if published is not None and published.plog == latest else 0
        next_offset = published.next_offset if published is not None and start else None
        file = self.plogs.open_file(latest)
        try:
            tail = find_tail(file, latest, start=start, next_offset=next_offset, synced_end=sealed_end(file, latest))
        finally:
            file.close()
        return Durable(latest, tail.synced_end, tail.synced_offset), tail.end


class ObservedLog:
    """One log of a `FolderObserver`. It ends with its topic: a later topic of the same name is another one."""

    def __init__(self, folder: FolderObserver, catalog: Catalog, published: PublishedTopic, partition: int) -> None:
        self.name = f"{published.topic.name}/{partition}"
        self.plogs = folder.plogs
        self._folder = folder
        self._catalog = catalog
        self._topic = published.topic.name
        self.topic_id = published.topic.id
        self._owner = Owner(published.topic.id, partition)
        self._slot = published.slot + partition
        self._chain = Chain()
        self._last: Extent | None = None

    def extent(self, beyond: int | None = None) -> Extent:
        if beyond is not None and self._last is not None and beyond < self._last.durable.next_offset:
            return self._last._replace(start=max(self._start(), self._last.start))
        gone: NotFound | None = None
        for _ in range(_TRIES):
            alive = self._folder.writer_alive()
            published, epoch = self._folder.published.end_and_epoch(self._slot, self._owner, self._catalog)
            start = self._start()
            # After the slot was read: another log may own the slot as soon as the topic is no longer listed.
            catalog = self._check_listed()
            # A power cut may have set an end that an earlier open published back to a much older value.
            current = alive and epoch >= self._folder.epoch(catalog)
            try:
                durable = self._durable(published, catalog, current, start, anew=beyond is None)
            except NotFound as error:
                # A plog vanished during the read: the writer trims the log, or deletes the topic.
                gone = error
                continue
            self._last = self._extent_of(durable, start)
            return self._last
        assert gone is not None
        if not self._folder.writer_alive():
            raise Corrupt(
                f"{self.name} should end in a plog, but {gone}: restore it from a copy; if the topic was deleted, or"
                " trimmed, on a full disk, open the folder for writing once"
            ) from gone
        raise gone

    def _extent_of(self, durable: Durable, start: int) -> Extent:
        if self._chain.links:
            start = max(start, self._chain.links[0].first_offset)
        else:
            start = self._start_of_nothing()
        # Everything may be trimmed: then the log begins where it ends.
        next_offset = max(durable.next_offset, start)
        return Extent(start, durable._replace(next_offset=next_offset), self._chain)

    def _start_of_nothing(self) -> int:
        """Where a log without plogs begins: it is new, or trimmed to its end. `NotFound` if its topic was deleted.

        The writer publishes all of that before the metadata drops the plogs, so this reads the catalog and the start
        again.
        """
        self._check_listed()
        start = self._start()
        # On a full disk the writer can delete a topic, but cannot remove it from the catalog.
        if self._last is not None and start < self._last.durable.next_offset:
            raise self._deleted()
        return start

    def _start(self) -> int:
        return self._folder.published.start(self._slot, self._owner) or 0

    def _check_listed(self) -> Catalog:
        """The catalog, if it still has this topic, else `NotFound`."""
        catalog = self._folder.catalog()
        # The reader returns the same object while the catalog has not changed: a follower looks often, and there may be
        # many topics.
        if catalog is not self._catalog:
            if all(published.topic.id != self._owner.topic_id for published in catalog.topics):
                raise self._deleted()
            self._catalog = catalog
        return catalog

    def _deleted(self) -> NotFound:
        return NotFound(f"topic {self._topic!r} was deleted")

    def _durable(
        self, published: Durable | None, catalog: Catalog, current: bool, start: int, *, anew: bool
    ) -> Durable:
        plog = None if published is None else published.plog
        # The writer records a rollover before it publishes a later end: a chain that has the published plog is current.
        if anew or not (current and plog is not None and self._has(plog)):
            self._chain = self._folder.chain(f"{self._owner.topic_id}/{self._owner.partition}", catalog, plog)
        if current and published is not None and (plog is None or self._has(plog)):
            return published
        try:
            return readable_end(self.plogs, self._chain, published)
        except NotFound:
            last = self._chain.last
            if current or last is None or start < last.first_offset:
                raise
            # The last plog was trimmed, and the durable part of the metadata does not have that yet.
            self._chain = Chain()
            return Durable(None, 0, start)

    def _has(self, plog: PlogId) -> bool:
        return self._chain.place_of(plog) >= 0

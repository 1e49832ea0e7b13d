"""A folder of logs, in the process that writes it. It knows no event loop and no lock file, and its threads are given.

Locks: `_retention_lock` and `_lock` (topics) are held during I/O. `_logs_lock` is held only to read or change the table
of logs.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from cordwood.errors import Conflict, CordwoodError, NotFound, Unavailable
from cordwood.locks import new_lock
from cordwood.log.native.chain.chain import Chain
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import Full
from cordwood.log.native.coordinator import Coordinator, TopicRow
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.disk import Disk
from cordwood.log.native.env.workers import Done, Workers, nothing
from cordwood.log.native.metadata.manager import METADATA_PLOG_BYTES_MIN, MetadataManager
from cordwood.log.native.plog import OPEN_PLOGS_MAX, PlogId, PlogStore
from cordwood.log.native.stream.recovery import Recovered, recover
from cordwood.log.native.stream.rollover import PLOG_BYTES_MAX, LogRolloverPolicy
from cordwood.log.native.stream.spare import NewId
from cordwood.log.native.stream.stream import Stream
from cordwood.log.topics import TopicChange, TopicConfig

from .countdown import Countdown
from .published import METADATA_OWNER, METADATA_SLOT, Owner, PublishedTopic
from .publisher import Publisher
from .retention import kept_from, wants_retention
from .written_log import WrittenLog

CLUSTER = "local"
GROUP = "0"


def _new_id() -> PlogId:
    return PlogId.new(CLUSTER, GROUP)


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """Sizes and times; tests make them tiny."""

    plog_bytes_max: int = PLOG_BYTES_MAX
    metadata_plog_bytes_min: int = METADATA_PLOG_BYTES_MIN
    idle_seconds: float = 10
    open_plogs_max: int = OPEN_PLOGS_MAX


class FolderWriter:
    """Topics and logs of one folder. Every method may be called from every thread; those that block say so."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        workers: Workers,
        coordinator: Coordinator,
        settings: FolderSettings = FolderSettings(),  # noqa: B008  frozen
        new_id: NewId = _new_id,
    ) -> None:
        self._clock = clock
        self._workers = workers
        self._coordinator = coordinator
        self._settings = settings
        self._new_id = new_id
        self.plogs = PlogStore(disk, settings.open_plogs_max, self._close_quiet_logs)
        self.plogs.prepare()
        self._lock = new_lock("writer.topics")
        # Held while limits of a topic are applied or changed; taken before `_lock`.
        self._retention_lock = new_lock("writer.retention")
        # Held only to read or change `_logs`, never during I/O: event loops ask for logs.
        self._logs_lock = new_lock("writer.logs")
        self._logs: dict[Owner, WrittenLog] = {}
        self._closed: CordwoodError | None = None
        self._epoch = coordinator.take_over()
        self._trimmed = {Owner(row.topic_id, row.partition): (row.start, row.next_offset) for row in coordinator.logs()}
        self._published = Publisher(
            disk, CLUSTER, GROUP, self._epoch, coordinator.topics(), self._trimmed, coordinator.metadata_plog()
        )
        try:
            self._published.check_coordinator()
            found = self.plogs.files()
            self._metadata = self._open_metadata()
        except BaseException:
            self._published.close()
            raise
        self._published.put_starts()
        if self._metadata.found.plog is not None:
            self._published.on_metadata_durable(self._metadata.found)
        # Without room for a new catalog, readers need the metadata plog that the last one names: it must not be swept
        # away.
        if self._published.put_catalog():
            workers.spawn(partial(self._sweep, *self._leftovers(found)))

    # -- topics --------------------------------------------------------------------------------------------------

    def topics(self) -> list[TopicRow]:
        return [published.topic for published in self._published.topics.values()]

    def topic(self, name: str) -> TopicRow:
        return self._published_topic(name).topic

    def create_topic(self, name: str, config: TopicConfig) -> TopicRow:
        """Blocks. `Conflict` if it exists."""
        with self._lock:
            self._check_open()
            if name in self._published.topics:
                raise Conflict(f"topic {name!r} exists already; pass exist_ok=True to use it as it is")
            try:
                row = self._coordinator.create_topic(name, config)
            except Conflict:
                # An earlier call created it and failed after its commit.
                for known in self._coordinator.topics():
                    if known.name not in self._published.topics:
                        self._published.add(known)
                raise
            self._published.add(row)
        return row

    def alter_topic(self, name: str, change: TopicChange) -> TopicRow:
        """Blocks. After it returns, nothing is trimmed by the topic's earlier limits."""
        with self._retention_lock, self._lock:
            self._check_open()
            row = self.topic(name).altered(change)
            self._coordinator.alter_topic(row)
            self._published.alter(row)
        return row

    def delete_topic(self, name: str, done: Done) -> None:
        """Blocks; `done` is called when the records are deleted too."""
        with self._lock:
            self._check_open()
            published = self._published.topics.get(name)
            if published is None:
                raise NotFound(f"topic {name!r} does not exist: topics() lists those that do")
            row = published.topic
            try:
                self._coordinator.delete_topic(row.id)
            except NotFound:
                # An earlier call deleted it and failed after its commit: the rest is still to be done.
                pass
            self._published.remove(name)
            owners = [Owner(row.id, partition) for partition in range(row.partitions)]
            # After the topic is off the list: from now on, a caller that asks for one of its logs gets `NotFound`.
            with self._logs_lock:
                logs = {owner: self._logs.get(owner) for owner in owners}
            gone = NotFound(f"topic {name!r} was deleted")
            countdown = Countdown(len(owners), done)
            for owner, log in logs.items():
                self._metadata.mark_unwanted(_service(owner))
                forget = partial(self._forget_log, owner, countdown.one_done)
                if log is None:
                    forget()
                else:
                    log.close(gone, forget)

    def log(self, topic: str, partition: int) -> WrittenLog:
        """No I/O. `NotFound` if there is no such topic or partition."""
        published = self._published_topic(topic)
        if partition >= published.topic.partitions:
            raise NotFound(
                f"topic {topic!r} has no partition {partition}:"
                f" its partitions are 0 to {published.topic.partitions - 1}"
            )
        owner = Owner(published.topic.id, partition)
        log = self._logs.get(owner)
        if log is not None:
            return log
        with self._logs_lock:
            self._check_open()
            current = self._published.topics.get(topic)
            if current is None or current.topic.id != published.topic.id:
                raise NotFound(f"topic {topic!r} was deleted")
            return self._logs.setdefault(
                owner, self._make_log(f"{topic}/{partition}", owner, published.slot + partition)
            )

    # -- from time to time ---------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Time out callers whose deadline has passed. It waits for no disk, so it works while the disk hangs."""
        now = self._clock.monotonic()
        for log in list(self._logs.values()):
            log.expire(now)

    def catch_up(self) -> None:
        """Blocks. Retries records that wait for room, and everything that could not be published."""
        self._metadata.retry()
        self._published.again()
        for log in list(self._logs.values()):
            log.publish_again()

    def give_space_back(self) -> None:
        """Close the files of idle logs, and free their unwritten space."""
        idle_since = self._clock.monotonic() - self._settings.idle_seconds
        for stream in self._streams():
            if stream.holds_space and stream.last_used <= idle_since:
                stream.give_space_back()

    def enforce_retention(self) -> None:
        """Blocks. Trims logs by their topics' retention, by whole plogs.

        The next call on a log where that failed raises the error; this call raises the first error after it has tried
        every log.
        """
        now = self._clock.time_ms()
        failed: CordwoodError | OSError | None = None
        for topic in filter(wants_retention, self.topics()):
            for partition in range(topic.partitions):
                # One damaged log must not keep the others from freeing their space.
                error = self._enforce_retention(topic.name, partition, now)
                failed = failed or error
        if failed is not None:
            raise failed

    def close(self, done: Done) -> None:
        """Finish and seal everything; `done` is called when another process may open the folder."""
        with self._lock:
            if self._closed is not None:
                return
            self._closed = Unavailable("the folder is closed: connect again", reason="closed")
            with self._logs_lock:
                logs = list(self._logs.values())
        finish_metadata = partial(self._metadata.finish, self._closed, partial(self._let_go, done))
        countdown = Countdown(len(logs), finish_metadata)
        for log in logs:
            log.close(self._closed, countdown.one_done)

    # -- inside --------------------------------------------------------------------------------------------------

    def _enforce_retention(self, name: str, partition: int, now: int) -> CordwoodError | OSError | None:
        with self._retention_lock:
            try:
                log = self.log(name, partition)
                # Looked up after the log: the limits are those of this topic, or of one that was created after it.
                topic = self.topic(name)
            except NotFound:
                # The topic was deleted meanwhile.
                return None
            try:
                log.trim(kept_from(log.extent(), topic, now), nothing)
            except NotFound:
                return None
            except (CordwoodError, OSError) as error:
                log.keep_background_failure("its retention", error)
                return error
            return None

    def _open_metadata(self) -> MetadataManager:
        return MetadataManager(
            self.plogs,
            self._workers,
            self._clock,
            self._coordinator,
            epoch=self._epoch,
            new_id=self._new_id,
            published=self._published.end_before(METADATA_SLOT, METADATA_OWNER),
            plog_bytes_min=self._settings.metadata_plog_bytes_min,
            on_durable=self._published.on_metadata_durable,
            on_rollover=self._published.on_metadata_rollover,
        )

    def _make_log(self, name: str, owner: Owner, slot: int) -> WrittenLog:
        return WrittenLog(
            name,
            owner,
            slot,
            self.plogs,
            self._workers,
            self._coordinator,
            self._published.writer,
            trimmed=self._trimmed.get(owner, (0, 0)),
            recover=partial(self._recover, owner, slot),
            open_stream=partial(self._open_stream, name, owner),
        )

    def _recover(self, owner: Owner, slot: int) -> Recovered:
        chain = self._metadata.chains.get(_service(owner), Chain())
        start, _ = self._trimmed.get(owner, (0, 0))
        return recover(self.plogs, chain, self._published.end_before(slot, owner), start)

    def _open_stream(
        self, name: str, owner: Owner, recovered: Recovered, on_durable: Callable[[Durable], None]
    ) -> Stream:
        return Stream(
            self.plogs,
            self._workers,
            self._clock,
            LogRolloverPolicy(self._metadata, _service(owner), self._settings.plog_bytes_max),
            name=name,
            epoch=self._epoch,
            new_id=self._new_id,
            chain=recovered.chain,
            next_offset=recovered.next_offset,
            seal_due=recovered.seal_due,
            on_durable=on_durable,
        )

    def _close_quiet_logs(self) -> None:
        """Free the descriptors of logs that nobody writes at this moment; their next append opens them again."""
        for stream in self._streams():
            stream.close_files_if_quiet()

    def _streams(self) -> list[Stream]:
        return [log.stream for log in list(self._logs.values()) if log.stream is not None]

    def _published_topic(self, name: str) -> PublishedTopic:
        published = self._published.topics.get(name)
        if published is None:
            self._check_open()
            raise NotFound(f"topic {name!r} does not exist: create it with create_topic({name!r})")
        return published

    def _forget_log(self, owner: Owner, done: Done) -> None:
        # Not before it is closed: until then its callers may wait for an answer, and a close of the folder waits for
        # it.
        with self._logs_lock:
            self._logs.pop(owner, None)
        self._forget(_service(owner), done)

    def _forget(self, service: str, done: Done) -> None:
        """Remove a service from the metadata, then delete its plogs."""
        chain = self._metadata.chains.get(service, Chain())
        self._metadata.record(service, [Full(())], partial(self._delete, chain, done))

    def _delete(self, chain: Chain, done: Done) -> None:
        for link in chain:
            self.plogs.delete(link.id)
        done()

    def _leftovers(self, found: set[int]) -> tuple[list[str], list[int]]:
        """Leftovers of crashes: chains of deleted topics, and those of the found plogs that no chain has.

        The coordinator that this relies on is not behind its witness, or it could not have been opened (R1). The list
        is made before any caller can delete a topic. If the deletion and the sweep both forgot a chain, it would have
        records after its end, which no open could read.
        """
        alive = {_service(Owner(row.id, number)) for row in self.topics() for number in range(row.partitions)}
        known = {link.id.random for chain in self._metadata.chains.values() for link in chain}
        if self._published.metadata_plog is not None:
            known.add(PlogId.parse(self._published.metadata_plog).random)
        return sorted(set(self._metadata.chains) - alive), sorted(found - known)

    def _sweep(self, services: list[str], plogs: list[int]) -> None:
        """Delete leftovers; if a close interrupts this, the next open deletes the rest."""
        for random in plogs:
            self.plogs.delete_file(random)
        with suppress(Unavailable):
            for service in services:
                self._forget(service, nothing)

    def _let_go(self, done: Done) -> None:
        self._published.close()
        self._coordinator.close()
        done()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed


def _service(owner: Owner) -> str:
    return f"{owner.topic_id}/{owner.partition}"

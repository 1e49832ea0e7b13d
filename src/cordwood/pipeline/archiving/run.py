"""`pipeline.archive`: writes what the archive lacks, verifies it, makes it count, and trims the log on request."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from cordwood.client import connect
from cordwood.errors import Conflict, Corrupt, InvalidInput
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.blocking import run as run_blocking
from cordwood.pipeline.places import TIMEOUT_SECONDS, LogPlace, StorePlace
from cordwood.pipeline.scanning.look import check_bound
from cordwood.pipeline.source.ranges import Ranges, read_ranges

from .coverage import Piece, covered_from, pieces, ranges_of
from .digests import NOTHING, differences, digests
from .folder import ArchiveFolder
from .look import TopicNow, look
from .manifest import ArchivedRange, Manifest

_LOGGER = logging.getLogger("cordwood.spark")


@dataclass(frozen=True)
class ArchiveReport:
    """What a run of `pipeline.archive` has done.

    >>> ArchiveReport(None, 0, {}, {}).records
    0
    """

    run: str | None
    """The name of the run; None if the archive had everything."""
    records: int
    ranges: Mapping[int, tuple[int, int]]
    """The offsets that it has added, by partition."""
    trimmed: Mapping[int, int]
    """The new first offset of each partition that it has trimmed."""


def archive(
    spark: SparkSession,
    log_url: str | os.PathLike[str],
    topic: str,
    path: str | os.PathLike[str],
    store_url: str | None,
    trim: bool,
    keep: timedelta,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
) -> ArchiveReport:
    """Add the records that the archive lacks, as of the end of the log now."""
    if not isinstance(keep, timedelta):
        raise TypeError(f"keep is a timedelta, not {type(keep).__name__}")
    if keep < timedelta(0):
        raise InvalidInput(f"keep is {keep}: it cannot be negative")
    log = LogPlace.of(log_url, config)
    store = None if store_url is None else StorePlace.of(store_url, store_config)
    now = look(log, checked_topic_name(topic))
    if trim:
        _check_trimmable(now, store)
        run_blocking(_check_writer(log, now, store))
    folder = ArchiveFolder(spark, path)
    folder.check_writable()
    manifests = folder.manifests(now.name, now.id)
    folder.remove_left_overs(manifests)
    added = _add(spark, log, now, folder, pieces(manifests))
    if added is not None:
        manifests = [*manifests, added]
    trimmed = _trim(spark, log, now, folder, manifests, added, store, keep) if trim else {}
    if added is None:
        return ArchiveReport(None, 0, {}, trimmed)
    ranges = {each.partition: (each.start, each.stop) for each in added.ranges}
    return ArchiveReport(added.run, sum(each.records for each in added.ranges), ranges, trimmed)


def _add(
    spark: SparkSession, log: LogPlace, now: TopicNow, folder: ArchiveFolder, known: list[Piece]
) -> Manifest | None:
    due: dict[int, tuple[int, int]] = {}
    for partition, (start, stop) in now.bounds.items():
        archived = ranges_of(known, partition)
        begin = max([start, *(last for _, last in archived)])
        if archived and start > max(last for _, last in archived):
            _LOGGER.warning(
                "%s/%d: the log starts at %d, and the archive ends before: the records between are in neither",
                *(now.name, partition, start),
            )
        if begin < stop:
            due[partition] = (begin, stop)
    if not due:
        return None
    created_ms = time.time_ns() // 1_000_000
    run = f"r{created_ms}-{secrets.token_hex(8)}"
    ranges = Ranges(now.name, now.id, due, uncommitted=now.is_journal)
    folder.write_run(run, read_ranges(spark, log, ranges))
    # R46: both sides are read again: what was written, and what the log has.
    written = digests(folder.run(run))
    _check_same(now, folder, written, digests(read_ranges(spark, log, ranges)))
    archived_ranges = []
    for partition, (begin, stop) in due.items():
        found = written.get(partition, NOTHING)
        archived_ranges.append(ArchivedRange(partition, begin, stop, found.records, found.actions, found.hash))
    manifest = Manifest(run, now.name, now.id, created_ms, archived_ranges)
    folder.write_manifest(manifest)
    return manifest


def _check_same(now: TopicNow, folder: ArchiveFolder, left: Mapping[int, object], right: Mapping[int, object]) -> None:
    wrong = differences(left, right)  # type: ignore[arg-type]
    if wrong:
        names = ", ".join(f"{now.name}/{partition}" for partition in wrong)
        raise Corrupt(f"{folder.path} does not have the records of {names} as the log has them: archive them again")


def _check_trimmable(now: TopicNow, store: StorePlace | None) -> None:
    """R46: `InvalidInput` for what no archive may trim."""
    if now.is_region:
        raise InvalidInput(
            f"topic {now.name!r} is a region's: only the cleaner of its owner trims it; archive it without trim=True"
        )
    if now.is_journal and store is None:
        raise InvalidInput(
            f"topic {now.name!r} has journals: name their store with store=, so that no record is trimmed that is not"
            " replicated"
        )


async def _check_writer(log: LogPlace, now: TopicNow, store: StorePlace | None) -> None:
    """A folder that another process writes cannot be trimmed: that is told before the job."""
    async with connect(log.url, config=log.config, timeout=TIMEOUT_SECONDS) as client:
        if store is None:
            return
        for partition, pointer in (await _pointers(now, store)).items():
            _, end = await client.log(now.name, partition).bounds()
            if pointer >= end:
                raise Conflict(
                    f"{now.name}/{partition} ends at {end}, and the store {store.url} has it up to {pointer}: the topic"
                    " was deleted and created again, or the store belongs to another one"
                )


async def _pointers(now: TopicNow, store: StorePlace) -> dict[int, int]:
    """R23: the pointers of another topic of this name say nothing about this one."""
    async with await store.open() as events:
        check_bound(await events.binding(now.name), now.name, now.id, now.partitions, store.url)
        return await events.pointers(now.name)


def _trim(
    spark: SparkSession,
    log: LogPlace,
    now: TopicNow,
    folder: ArchiveFolder,
    manifests: list[Manifest],
    added: Manifest | None,
    store: StorePlace | None,
    keep: timedelta,
) -> dict[int, int]:
    """R46: trim what a verified manifest covers, every pointer has passed, and is older than `keep`."""
    if store is None and any(each.actions for manifest in manifests for each in manifest.ranges):
        raise InvalidInput(f"topic {now.name!r} has records of journals: name their store with store= to trim it")
    known = pieces(manifests)
    limits = run_blocking(_limits(log, now, store, keep))
    due: dict[int, tuple[int, int]] = {}
    for partition, (start, limit) in limits.items():
        before = min(limit, covered_from(ranges_of(known, partition), start))
        if before > start:
            due[partition] = (start, before)
    if not due:
        return {}
    # What this run has added was read again already. What earlier ones had verified may be gone since.
    earlier = {
        partition: bounds
        for partition, (start, before) in due.items()
        if (bounds := (start, min(before, _start_of(added, partition, before))))[0] < bounds[1]
    }
    if earlier:
        wanted = [_cut(piece, *earlier[piece.partition]) for piece in known if piece.partition in earlier]
        archived = folder.records([piece for piece in wanted if piece.start < piece.stop], manifests)
        live = read_ranges(spark, log, Ranges(now.name, now.id, earlier, uncommitted=now.is_journal))
        _check_same(now, folder, digests(archived), digests(live))
    run_blocking(_trim_log(log, now, {partition: before for partition, (_, before) in due.items()}))
    return {partition: before for partition, (_, before) in due.items()}


def _start_of(added: Manifest | None, partition: int, otherwise: int) -> int:
    starts = [each.start for each in (added.ranges if added is not None else ()) if each.partition == partition]
    return starts[0] if starts else otherwise


def _cut(piece: Piece, start: int, stop: int) -> Piece:
    return Piece(piece.run, piece.partition, max(piece.start, start), min(piece.stop, stop))


async def _limits(
    log: LogPlace, now: TopicNow, store: StorePlace | None, keep: timedelta
) -> dict[int, tuple[int, int]]:
    """By partition the first kept offset, and the first one that must stay whatever the archive has."""
    pointers: Mapping[int, int] | None = None
    if store is not None:
        pointers = await _pointers(now, store)
    before = datetime.now(UTC) - keep
    async with connect(log.url, config=log.config, read_only=True, timeout=TIMEOUT_SECONDS) as client:
        logs = [client.log(now.name, partition) for partition in range(now.partitions)]
        starts = await asyncio.gather(*(each.bounds() for each in logs))
        old = await asyncio.gather(*(each.offset_at(before) for each in logs))
    # A missing pointer has passed nothing.
    return {
        partition: (
            starts[partition][0],
            old[partition] if pointers is None else min(old[partition], pointers.get(partition, -1) + 1),
        )
        for partition in range(now.partitions)
    }


async def _trim_log(log: LogPlace, now: TopicNow, before: Mapping[int, int]) -> None:
    async with connect(log.url, config=log.config, timeout=TIMEOUT_SECONDS) as client:
        info = await client.topic(now.name)
        if info.id != now.id:
            raise Conflict(
                f"topic {now.name!r} was deleted and created again while it was archived: archive the new one"
            )
        for partition, offset in before.items():
            await client.log(now.name, partition).trim(offset)
            _LOGGER.info("%s/%d is trimmed before %d: it is archived, and replicated", now.name, partition, offset)

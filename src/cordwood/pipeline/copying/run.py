"""`pipeline.copy`: a topic into a new one, verified on both sides."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cordwood.client import Client, connect
from cordwood.errors import Conflict, Corrupt, InvalidInput, NotFound, Trimmed
from cordwood.log.topics import checked_partitions, checked_topic_name
from cordwood.pipeline.archiving.look import TopicNow, look
from cordwood.pipeline.archiving.reading import everything
from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import TIMEOUT_SECONDS, LogPlace
from cordwood.pipeline.source.ranges import Ranges, read_ranges
from cordwood.pipeline.source.schema import spark_schema

from .order import keyed_digest
from .progress import CopyNote, delete_note, note_topic, read_note, write_note
from .records import NamedLives

_WRITTEN = ("key", "value", "headers", "partition", "timestamp")


@dataclass(frozen=True)
class CopyReport:
    """A topic that was copied.

    >>> CopyReport(1000, 4).partitions
    4
    """

    records: int
    partitions: int
    """Of the new topic."""


def copy(
    spark: SparkSession,
    from_url: str | os.PathLike[str],
    topic: str,
    to_url: str | os.PathLike[str],
    to_topic: str,
    partitions: int | None,
    archive: str | os.PathLike[str] | None,
    config: Mapping[str, str],
    to_config: Mapping[str, str],
) -> CopyReport:
    """Copy the records of a topic as of its end now."""
    checked_topic_name(to_topic)
    note_topic(to_topic)
    checked_partitions(partitions)
    source, target = LogPlace.of(from_url, config), LogPlace.of(to_url, to_config)
    now = look(source, checked_topic_name(topic))
    if now.is_region:
        raise InvalidInput(
            f"topic {topic!r} is a region's: its owner and its cleaner know its offsets, and a copy has others"
        )
    if archive is None and now.is_journal:
        _check_whole(now, {partition: start for partition, (start, _) in now.bounds.items()})
    note = run(_begin(target, to_topic, now, partitions or now.partitions))
    now = replace(now, bounds={each: (start, note.ends[each]) for each, (start, _) in now.bounds.items()})
    records = everything(spark, source, now, archive, whole=now.is_journal)
    records = records.mapInArrow(NamedLives(now.id), spark_schema(include_headers=True))
    if not run(_has_records(target, to_topic)):
        _write(records, target, to_topic, now, note, archive is not None)
    end = look(target, to_topic)
    written = read_ranges(spark, target, Ranges(to_topic, end.id, end.bounds, uncommitted=True))
    found, expected = keyed_digest(written), keyed_digest(records)
    if found != expected:
        raise Corrupt(
            f"topic {to_topic!r} in {target.parsed} has {found.records} records, and not the {expected.records} of"
            f" {topic!r}, those of each key in their order: delete it and {note_topic(to_topic)!r}, and copy again"
        )
    run(_end(target, to_topic))
    return CopyReport(expected.records, note.partitions)


def _check_whole(now: TopicNow, starts: Mapping[int, int]) -> None:
    for partition, start in starts.items():
        if start > 0:
            raise Trimmed(
                f"{now.name}/{partition} starts at {start}: a copy of journals needs their whole history; name the"
                " archive that has the records before with archive=",
                start=start,
            )


async def _begin(target: LogPlace, to_topic: str, now: TopicNow, partitions: int) -> CopyNote:
    """Create the target, or find that of a copy which broke off."""
    async with connect(target.url, config=target.config, timeout=TIMEOUT_SECONDS) as client:
        note = await read_note(client, to_topic)
        exists = await _id_of(client, to_topic)
        if note is None:
            if exists is not None:
                raise Conflict(f"topic {to_topic!r} exists in {target.parsed}: a copy makes a new one; name another")
            ends = {partition: end for partition, (_, end) in now.bounds.items()}
            note = CopyNote(now.name, now.id, ends, partitions)
            await write_note(client, to_topic, note)
        elif (note.source, note.source_id, note.partitions) != (now.name, now.id, partitions):
            raise Conflict(
                f"topic {to_topic!r} in {target.parsed} is half of a copy of topic {note.source!r} with the id"
                f" {note.source_id} into {note.partitions} partitions: finish that one, or delete it and"
                f" {note_topic(to_topic)!r}"
            )
        elif note.ends.keys() != now.bounds.keys():
            raise Conflict(
                f"topic {now.name!r} got other partitions since its copy broke off: delete {to_topic!r} and"
                f" {note_topic(to_topic)!r} in {target.parsed}, and copy again"
            )
        if exists is not None and note.target_id not in (None, exists):
            raise Conflict(f"topic {to_topic!r} was created by somebody else since its copy broke off: name another")
        if exists is not None and not target.is_folder and await _records(client, to_topic):
            if note.target_id is None:
                raise Conflict(f"topic {to_topic!r} exists in {target.parsed}, and a copy did not create it")
            # Its records may be there twice, or only in part: a folder has all of them or none.
            await client.delete_topic(to_topic)
            exists = None
        if exists is None:
            info = await client.create_topic(to_topic, partitions=partitions, retention=None)
            exists = info.id
        if note.target_id != exists:
            note = msgspec.structs.replace(note, target_id=exists)
            await write_note(client, to_topic, note)
        return note


async def _end(target: LogPlace, to_topic: str) -> None:
    async with connect(target.url, config=target.config, timeout=TIMEOUT_SECONDS) as client:
        await delete_note(client, to_topic)


async def _has_records(target: LogPlace, to_topic: str) -> bool:
    async with connect(target.url, config=target.config, read_only=True, timeout=TIMEOUT_SECONDS) as client:
        return await _records(client, to_topic)


async def _records(client: Client, topic: str) -> bool:
    info = await client.topic(topic)
    bounds = [await client.log(topic, partition).bounds() for partition in range(info.partitions)]
    return any(end > 0 for _, end in bounds)


async def _id_of(client: Client, topic: str) -> str | None:
    try:
        return (await client.topic(topic)).id
    except NotFound:
        return None


def _write(records: DataFrame, target: LogPlace, to_topic: str, now: TopicNow, note: CopyNote, archived: bool) -> None:
    same = note.partitions == now.partitions
    if target.is_folder and archived:
        # The tasks of a write to a folder count in their order.
        records = records.repartitionByRange("partition", "offset").sortWithinPartitions("partition", "offset")
    elif not target.is_folder:
        # Tasks append at the same time: the records of a key are in one of them.
        together = (
            F.col("partition") if same else F.coalesce(F.col("key"), F.col("partition").cast("string").cast("binary"))
        )
        records = records.repartition(together).sortWithinPartitions("partition", "offset")
    # Records stay in their partition if there are as many. Otherwise keys decide, and records without one stay
    # together.
    place = F.col("partition") if same else F.when(F.col("key").isNull(), F.col("partition") % note.partitions)
    written = records.withColumn("partition", place.cast("int")).select(*_WRITTEN)
    written.write.format("cordwood").mode("append").options(**target.texts(), topic=to_topic).save()

"""`pipeline.read(archive=…)`: archived and live records as one frame, each offset once."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from cordwood.errors import InvalidInput, Trimmed
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.options import KAFKA_PREFIX
from cordwood.pipeline.places import LogPlace
from cordwood.pipeline.source.ranges import Ranges, read_ranges

from .coverage import Piece, missing, pieces, ranges_of
from .folder import COLUMNS, ArchiveFolder
from .look import TopicNow, look

_OPTIONS = ("includeHeaders", "failOnDataLoss")
_LOGGER = logging.getLogger("cordwood.spark")


def read(
    spark: SparkSession,
    url: str | os.PathLike[str],
    topic: object,
    path: str | os.PathLike[str],
    options: Mapping[str, object],
) -> DataFrame:
    """The records of a topic from its archive, and from the log what the archive lacks."""
    if not isinstance(topic, str):
        raise InvalidInput(f"an archive has one topic, and topic is {topic!r}: read each with its own archive")
    config = {name[len(KAFKA_PREFIX) :]: str(value) for name, value in options.items() if _is_of_kafka(name)}
    for name in options:
        if name not in _OPTIONS and not _is_of_kafka(name):
            raise InvalidInput(
                f"option {name!r}: with archive=, read takes {', '.join(_OPTIONS)}, and filters the rows"
            )
    log = LogPlace.of(url, config)
    now = look(log, checked_topic_name(topic))
    lossy = str(options.get("failOnDataLoss", True)).lower() == "false"
    frame = everything(spark, log, now, path, lossy=lossy)
    headers = str(options.get("includeHeaders", False)).lower() == "true"
    return frame if headers else frame.drop("headers")


def everything(
    spark: SparkSession,
    log: LogPlace,
    now: TopicNow,
    path: str | os.PathLike[str] | None,
    *,
    whole: bool = False,
    lossy: bool = False,
) -> DataFrame:
    """All records of a topic up to its end now, from the first archived one on; `Trimmed` if a range is in neither.

    `whole`: from the very first one on. `lossy`: a range that is in neither is left out, with a warning.
    """
    if path is None:
        return read_ranges(spark, log, Ranges(now.name, now.id, now.bounds, uncommitted=now.is_journal))
    folder = ArchiveFolder(spark, path)
    manifests = folder.manifests(now.name, now.id)
    wanted = [piece for piece in pieces(manifests) if piece.partition in now.bounds]
    archived = [piece for piece in map(_before_ends(now), wanted) if piece.start < piece.stop]
    frames = [folder.records(archived, manifests)] if archived else []
    live: dict[int, list[tuple[int, int]]] = {}
    for partition, (start, stop) in now.bounds.items():
        known = ranges_of(archived, partition)
        first = 0 if whole else min([start, *(begin for begin, _ in known)])
        live[partition] = []
        for begin, end in missing(known, first, stop):
            if begin < start:
                text = (
                    f"{now.name}/{partition}: records {begin} to {min(end, start) - 1} are neither in the log, which"
                    f" starts at {start}, nor in the archive {folder.path}"
                )
                if not lossy:
                    raise Trimmed(f"{text}; failOnDataLoss=false reads the rest", start=start)
                _LOGGER.warning("left out: %s", text)
                begin = start
            if begin < end:
                live[partition].append((begin, end))
    for turn in range(max(map(len, live.values()), default=0)):
        some = {partition: ranges[turn] for partition, ranges in live.items() if turn < len(ranges)}
        frames.append(read_ranges(spark, log, Ranges(now.name, now.id, some, uncommitted=now.is_journal)))
    if not frames:
        frames = [read_ranges(spark, log, Ranges(now.name, now.id, {}))]
    found = frames[0].select(*COLUMNS)
    for frame in frames[1:]:
        found = found.unionByName(frame.select(*COLUMNS))
    return found


def _before_ends(now: TopicNow) -> Callable[[Piece], Piece]:
    """Cut what was archived after the end that a job has fixed."""
    return lambda piece: replace(piece, stop=min(piece.stop, now.bounds[piece.partition][1]))


def _is_of_kafka(name: str) -> bool:
    return name.lower().startswith(KAFKA_PREFIX)

"""`pipeline.replicate` and `pipeline.catch_up`: checks, and the query or the job."""

import atexit
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from weakref import WeakSet

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cordwood.errors import InvalidInput
from cordwood.pipeline.blocking import run

from .failures import own_errors
from .job import JobOptions, job_options
from .replica import Replica
from .source import CatchUpSource, ReplicateSource

_TRIGGER = re.compile(r"\s*[0-9]+\s+(millisecond|second|minute|hour|day)s?\s*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_registered: WeakSet[SparkSession] = WeakSet()


@dataclass(frozen=True, slots=True)
class CatchUpReport:
    """The work of one `catch_up`."""

    records: int
    events: int
    dead: int
    """The records that could not be decoded, and lost ranges that were accepted."""
    seconds: float


def replicate(
    spark: SparkSession,
    url: str | os.PathLike[str],
    topics: str | Sequence[str],
    store: str,
    checkpoint: str | os.PathLike[str] | None,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
    trigger: str,
    max_records: int,
    max_dead_letters: int,
    store_timeout: float,
) -> StreamingQuery:
    """Start a query that replicates until it is stopped."""
    if not _TRIGGER.fullmatch(trigger):
        raise InvalidInput(f"trigger is {trigger!r}: it is a time span, such as '0 seconds' or '5 minutes'")
    checked = job_options(
        url,
        topics,
        store,
        config=config,
        store_config=store_config,
        max_records=max_records,
        max_dead_letters=max_dead_letters,
        store_timeout=store_timeout,
    )
    place = _temporary() if checkpoint is None else _checked_place(os.fspath(checkpoint))
    texts = _begun(checked).texts()
    _register(spark)
    rows = spark.readStream.format(ReplicateSource.name()).options(**texts).load()
    writer = rows.writeStream.format(ReplicateSource.name()).options(**texts).option("checkpointLocation", place)
    return writer.trigger(processingTime=trigger).start()


def catch_up(
    spark: SparkSession,
    url: str | os.PathLike[str],
    topics: str | Sequence[str],
    store: str,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
    accept_loss: bool,
    adopt: bool,
    max_dead_letters: int,
    store_timeout: float,
) -> CatchUpReport:
    """Replicate to the ends of the logs as of now."""
    begun = time.monotonic()
    checked = job_options(
        url,
        topics,
        store,
        config=config,
        store_config=store_config,
        max_dead_letters=max_dead_letters,
        store_timeout=store_timeout,
        accept_loss=accept_loss,
    )
    if adopt:
        run(_adopt(checked))
    texts = _begun(checked).texts()
    _register(spark)
    with own_errors():
        done = spark.read.format(CatchUpSource.name()).options(**texts).load().collect()
    return CatchUpReport(
        sum(row.records for row in done),
        sum(row.events for row in done),
        sum(row.dead for row in done),
        time.monotonic() - begun,
    )


def _begun(options: JobOptions) -> JobOptions:
    """The job with the pointers of its start: dead letters of earlier runs do not count for its limit.

    It also finds a topic that does not exist, and a store that does not answer, before a job starts.
    """

    async def look() -> dict[str, dict[int, int]]:
        replica = Replica(options)
        try:
            return {state.info.name: state.pointers for state in await replica.states()}
        finally:
            await replica.aclose()

    return replace(options, job=msgspec.structs.replace(options.job, began=run(look())))


async def _adopt(options: JobOptions) -> None:
    replica = Replica(options)
    try:
        await replica.adopt()
    finally:
        await replica.aclose()


def _temporary() -> str:
    folder = tempfile.mkdtemp(prefix="cordwood-checkpoint-")
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder


def _checked_place(place: str) -> str:
    """The checkpoint with an absolute path, if it is a folder here; Spark knows other file systems by their scheme."""
    if _SCHEME.match(place):
        return place
    folder = Path(place).absolute()
    plans = [path for path in folder.glob("offsets/*") if path.name.isdigit()]
    if plans:
        newest = max(plans, key=lambda path: int(path.name))
        # A version, a line of metadata, and a position for each source.
        if not any(_is_ours(line) for line in newest.read_text(encoding="utf-8").splitlines()[2:]):
            raise InvalidInput(
                f"checkpoint {place!r} is that of another query: name another folder; the store says where a"
                " replication begins"
            )
    return str(folder)


def _is_ours(line: str) -> bool:
    try:
        position = json.loads(line)
    except ValueError:
        return False
    return isinstance(position, dict) and "replicating" in position


def _register(spark: SparkSession) -> None:
    if spark not in _registered:  # Spark warns of a second time
        spark.dataSource.register(CatchUpSource)
        spark.dataSource.register(ReplicateSource)
        _registered.add(spark)

"""`pipeline.audit`: a pass over everything, and a second one over the keys that it has named."""

import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cordwood.errors import InvalidInput, Trimmed, Unavailable
from cordwood.journal.action import ACTION_HEADER
from cordwood.log.topics import checked_topic_name
from cordwood.pipeline.archiving.coverage import covered_from, pieces, ranges_of
from cordwood.pipeline.archiving.folder import ArchiveFolder
from cordwood.pipeline.archiving.look import TopicNow, look
from cordwood.pipeline.archiving.reading import everything
from cordwood.pipeline.blocking import run
from cordwood.pipeline.places import LogPlace, StorePlace
from cordwood.pipeline.scanning.look import check_bound
from cordwood.pipeline.scanning.source import part_count
from cordwood.pipeline.source.registering import register
from cordwood.pipeline.source.schema import spark_schema
from cordwood.store import Binding, DeadLetter

from .findings import SCHEMA, Finding
from .key import Letter
from .store_side import HEAD, RECORD, SIDE_SCHEMA, AuditStoreSource
from .task import FINDING_SCHEMA, AuditPlan, Comparing

_KEYS_MAX = 100_000
"""Up to so many keys are looked at again by their names; more are looked at by another pass over everything."""
_REST = [field for field in spark_schema(include_headers=True) if field.name in ("headers", "timestamp")]
_COLUMNS = ("key", "side", "at", "value", "headers", "timestamp")


def audit(
    spark: SparkSession,
    log_url: str | os.PathLike[str],
    topic: str,
    store_url: str,
    archive: str | os.PathLike[str] | None,
    fix: bool,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
) -> DataFrame:
    """The findings, each checked twice."""
    log, store = LogPlace.of(log_url, config), StorePlace.of(store_url, store_config)
    if fix and store.machine is None:
        raise InvalidInput("fix=True rewrites keys of a store in a SQLite file: this store is another one")
    checked_topic_name(topic)
    if fix:
        run(_check_no_replicator(store, topic))
    job = _Audit(spark, log, store, topic, archive)
    first, about_topic = job.look()
    found = set(job.findings(first, None, fix=False)) if first is not None else set()
    named: dict[str, int] = {}
    for each in found:
        if each.key is not None:
            named[each.key] = max(named.get(each.key, 0), each.last)
    again: list[Finding] = []
    if named:
        second, about_topic_again = job.look()
        about_topic = [each for each in about_topic if each in about_topic_again]
        if second is not None:
            again = job.findings(second, named, fix=fix)
    kinds = {(each.what, each.key) for each in found}
    # A key that changed during the first pass was not compared: then the second one alone decides.
    moved = {each.key for each in found if each.what == "changed meanwhile"}
    checked = [each for each in again if (each.what, each.key) in kinds or each.key in moved]
    rows = [each.row(topic) for each in [*about_topic, *sorted(checked, key=lambda each: (str(each.key), each.what))]]
    return spark.createDataFrame(rows, SCHEMA)


async def _check_no_replicator(place: StorePlace, topic: str) -> None:
    """A replicator that runs would move the keys that are rewritten: the repair would leave them as they are."""
    async with await place.open() as store:
        for partition, lease in (await store.leases(topic)).items():
            raise Unavailable(
                f"{lease.owner} replicates {topic}/{partition}: stop it, and fix the store then; its lease ends by"
                " itself if it died",
                reason="busy",
            )


class _Audit:
    def __init__(
        self,
        spark: SparkSession,
        log: LogPlace,
        store: StorePlace,
        topic: str,
        archive: str | os.PathLike[str] | None,
    ) -> None:
        self._spark = spark
        self._log = log
        self._store = store
        self._topic = topic
        self._archive = archive
        self._now: TopicNow | None = None

    def look(self) -> tuple[AuditPlan | None, list[Finding]]:
        """The plan of a pass, and the findings about the topic as a whole; no plan if no key can be compared."""
        letters, pointers, binding = run(self._stored())
        # After the pointers: the log has every record that the store has.
        now = self._now = look(self._log, self._topic)
        check_bound(binding, now.name, now.id, now.partitions, self._store.url)
        found = [_of_letter(letter) for letter in letters if letter.through is not None or letter.skipped is not None]
        starts = self._starts(now)
        whole = []
        for each, (start, end) in now.bounds.items():
            pointer = pointers.get(each, -1)
            if pointer >= end:
                found.append(Finding("pointer beyond the end", each, pointer))
            if start > pointer + 1:
                found.append(Finding("lost records", each, pointer + 1, numbers=f"{pointer + 1}-{start - 1}"))
            if starts[each] == 0:
                whole.append(each)
            else:
                found.append(Finding("unknown history", each, starts[each]))
        plan = AuditPlan(
            now.name,
            now.id,
            10_000 if binding is None else binding.segment_size,
            pointers,
            {each: max(end, pointers.get(each, -1) + 1) for each, (_, end) in now.bounds.items()},
            whole,
            [
                Letter(letter.id, letter.partition, letter.offset, letter.skipped is not None)
                for letter in letters
                if letter.id is not None and letter.through is None
            ],
            binding is None or binding.replicator == "cordwood",
        )
        return plan, found

    async def _stored(self) -> tuple[list[DeadLetter], Mapping[int, int], Binding | None]:
        async with await self._store.open() as store:
            pointers = await store.pointers(self._topic)
            return await store.dead_letters(self._topic), pointers, await store.binding(self._topic)

    def _starts(self, now: TopicNow) -> dict[int, int]:
        """From which offset on the history of each partition is there."""
        starts = {each: start for each, (start, _) in now.bounds.items()}
        if self._archive is None:
            return starts
        known = pieces(ArchiveFolder(self._spark, self._archive).manifests(now.name, now.id))
        return {
            each: 0 if covered_from(ranges_of(known, each), 0) >= start else start for each, start in starts.items()
        }

    def findings(self, plan: AuditPlan, keys: Mapping[str, int] | None, *, fix: bool) -> list[Finding]:
        """One pass: over everything, or over these keys, which are read anew, up to their last known numbers."""
        now = self._now
        assert now is not None
        only = None if keys is None or len(keys) > _KEYS_MAX else pa.array([key.encode() for key in keys], pa.binary())
        records = self._records(now, plan)
        # A dead letter may be all that there is of a key.
        stored = self._store_side(keys, {letter.id for letter in plan.letters})
        both = stored.unionByName(records.select(*_COLUMNS))
        if only is not None:
            both = both.mapInArrow(partial(_only, only), both.schema)
        together = both.repartition("key").sortWithinPartitions("key", "side", "at")
        comparing = Comparing(plan, self._store, now.partitions, again=keys is not None, fix=fix)
        rows = together.mapInArrow(comparing, FINDING_SCHEMA).collect()
        return [Finding(*row) for row in rows]

    def _records(self, now: TopicNow, plan: AuditPlan) -> DataFrame:
        bounds = {each: bounds for each, bounds in now.bounds.items() if each in plan.whole}
        some = TopicNow(now.name, now.id, now.partitions, bounds, is_journal=True, is_region=False)
        try:
            records = everything(self._spark, self._log, some, self._archive, whole=True)
        except Trimmed as error:
            raise Trimmed(f"{error}: it was trimmed while it was audited", start=error.start) from error
        asked = F.exists("headers", lambda header: header["key"] == ACTION_HEADER)
        of_journals = records.where(F.col("key").isNotNull() & asked)
        return of_journals.select("key", F.lit(RECORD).alias("side"), F.col("offset").alias("at"), *_COLUMNS[3:])

    def _store_side(self, keys: Mapping[str, int] | None, dead: Collection[str]) -> DataFrame:
        if keys is None:
            register(self._spark, AuditStoreSource)
            options = {**self._store.texts(), "topic": self._topic, "parts": str(part_count(self._spark))}
            rows = self._spark.read.format(AuditStoreSource.name()).options(**options).load()
            if dead:
                rows = rows.unionByName(self._named(dict.fromkeys(dead, 0)))
        else:
            # A task reads them by itself, each as of one moment.
            rows = self._named(keys)
        return rows.select(*SIDE_SCHEMA.names, *(F.lit(None).cast(field.dataType).alias(field.name) for field in _REST))

    def _named(self, keys: Mapping[str, int]) -> DataFrame:
        """Keys alone, and the last number that is known of each."""
        return self._spark.createDataFrame(
            [(key.encode(), HEAD, last, None) for key, last in keys.items()], SIDE_SCHEMA
        )


def _of_letter(letter: DeadLetter) -> Finding:
    if letter.through is not None:
        return Finding("lost range", letter.partition, letter.offset, numbers=f"{letter.offset}-{letter.through}")
    return Finding("skipped record", letter.partition, letter.offset, letter.id)


def _only(keys: pa.Array, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_in(batch.column("key"), value_set=keys))

"""`pipeline.purge_expired`: the expired journals and no others, by the index or by a scan (R22)."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, Client, InvalidInput, NotFound, Unavailable, pipeline
from cordwood.journal.action import Append
from cordwood.journal.event import Event
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from cordwood.log.partitioning import partition_of
from cordwood.pipeline import purging
from cordwood.pipeline.purging import Expired
from cordwood.store.opening import open_store
from cordwood.testing.kafka import Broker
from tests.support.pipeline.holding import writer_of

# The first job of a session is slow where many processes share the cores.
pytestmark = pytest.mark.timeout(600)

HOUR = timedelta(hours=1)


async def append_expiring(client: Client, topic: str, id: str, at: datetime, after: timedelta | None) -> None:
    """A journal of one event whose record has this time."""
    payload_type, value = encode_value([Event.json(1)], 1, after, None)
    header = encode_header(Append(1, 1, payload_type, id=f"of-{id}", expected=0))
    info = await client.topic(topic)
    batch = Batch.of(
        [value],
        keys=[id.encode()],
        headers=[[("journal.action", header)]],
        timestamps=[int(at.timestamp() * 1000)],
    )
    await client.log(topic, partition_of(id.encode(), info.partitions)).append(batch)


async def fill(client: Client, topic: str) -> tuple[str, set[str], date]:
    """Journals that have expired, that expire today, and that never do; the url of no store yet."""
    await client.create_topic(topic, partitions=2)
    now = datetime.now(UTC)
    expired = {f"old-{number}" for number in range(30)}
    for id in sorted(expired):
        await append_expiring(client, topic, id, now - timedelta(days=9), timedelta(days=int(id[4:]) % 5))
    for number in range(10):
        await append_expiring(client, topic, f"today-{number}", now - 2 * HOUR, 2 * HOUR)
        await append_expiring(client, topic, f"never-{number}", now - timedelta(days=9), None)
    return topic, expired, now.date()


async def ids_of(client: Client, topic: str, store: str) -> set[str]:
    async with client.journal(topic, store=store, replicate=False, keep=None) as journal:
        return {id async for id in journal.ids()}


def others() -> set[str]:
    return {f"{kind}-{number}" for kind in ("today", "never") for number in range(10)}


@pytest.mark.parametrize("full", [False, True])
async def test_expired_journals_are_purged_and_no_others(spark: SparkSession, folder: Path, full: bool) -> None:
    store = f"sqlite:{folder.parent / 'store.db'}"
    async with cordwood.connect(folder) as client:
        _, expired, today = await fill(client, "orders")
        async with await open_store(store):
            pass
    counts = pipeline.purge_expired(spark, folder, "orders", store, full=full)
    assert (counts.purged, counts.refused, counts.failed) == (len(expired), 0, 0)
    async with cordwood.connect(folder) as client, await open_store(store) as events:
        assert await ids_of(client, "orders", store) == others()
        assert await events.expired_through("orders") == today - timedelta(days=1)
    # The Purges are in the log: the next run replicates them, and finds nothing.
    assert pipeline.purge_expired(spark, folder, "orders", store, full=full).purged == 0


async def test_r22_a_journal_that_got_events_meanwhile_is_refused(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:{folder.parent / 'store.db'}"
    async with cordwood.connect(folder) as client:
        await fill(client, "orders")
        async with await open_store(store):
            pass
        found = purging._expired

        def seen_earlier(page: Iterable[object], day: date) -> list[Expired]:
            return [each._replace(seq_nr=0) if each.id == "old-7" else each for each in found(page, day)]  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(purging, "_expired", seen_earlier)
            counts = pipeline.purge_expired(spark, folder, "orders", store)
        assert (counts.purged, counts.refused, counts.failed) == (29, 1, 0)
        async with await open_store(store) as events:
            assert await events.expired_through("orders") is None, "the next run finds it"
        assert await ids_of(client, "orders", store) == {*others(), "old-7"}
    assert pipeline.purge_expired(spark, folder, "orders", store).purged == 1


@pytest.mark.parametrize("full", [False, True])
async def test_on_kafka_the_tasks_purge(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    store, topic = f"sqlite:{tmp_path / 'store.db'}", f"expiring-{full}"
    monkeypatch.setattr(purging, "_PER_TASK", 7)
    monkeypatch.setattr(purging, "_PARTS", 3)
    async with cordwood.connect(kafka.url) as client:
        await fill(client, topic)
        async with await open_store(store):
            pass
        counts = pipeline.purge_expired(spark, kafka.url, topic, store, full=full)
        assert (counts.purged, counts.refused, counts.failed, counts.errors) == (30, 0, 0, {})
        assert await ids_of(client, topic, store) == others()


@pytest.mark.processes
async def test_bad_input_of_purge_expired_is_told_at_the_call(spark: SparkSession, folder: Path) -> None:
    store = f"sqlite:{folder.parent / 'store.db'}"
    async with cordwood.connect(folder) as client:
        await client.create_topic("orders")
        async with await open_store(store):
            pass
    today = datetime.now(UTC).date()
    with pytest.raises(InvalidInput, match="the last day that is over"):
        pipeline.purge_expired(spark, folder, "orders", store, on=today)
    with pytest.raises(TypeError, match="on is a date"):
        pipeline.purge_expired(spark, folder, "orders", store, on="2026-01-01")  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="'nothing'"):
        pipeline.purge_expired(spark, folder, "nothing", store)
    with pytest.raises(NotFound, match="no store"):
        pipeline.purge_expired(spark, folder, "orders", f"sqlite:{folder.parent / 'no store.db'}")
    with writer_of(folder) as pid, pytest.raises(Unavailable) as caught:
        pipeline.purge_expired(spark, folder, "orders", store)
    assert (caught.value.reason, caught.value.pid) == ("busy", pid)

"""What Kafka changes: topics that promise less than a region needs, limits that move, a log that loses its end."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from cordwood import Batch, Client, Conflict, CordwoodError, Corrupt, Timeout, TooLarge, Unavailable
from cordwood.log.kafka.record_size import record_bytes
from cordwood.simulation.faulty_log import FaultyEngine, lose_end
from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client
from tests.support.wal.region_contents import by_table
from tests.support.wal.region_internals import writer_of

on_kafka = pytest.mark.parametrize("engine", ["kafka"])


@on_kafka
async def test_r19_a_region_is_topics_that_keep_everything(cw: Client) -> None:
    async with cw.wal("metrics").region(7):
        for topic in ("metrics_data_7", "metrics_meta_7"):
            info = await cw.topic(topic)
            assert (info.partitions, info.retention, info.retention_bytes) == (1, None, None)
            assert info.durability == "in memory: an ack means the page cache of at least 1 of 1 replicas"


@on_kafka
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
async def test_r19_a_compacted_topic_is_refused(kafka: Broker, cw: Client, policy: str) -> None:
    bare_client.create(kafka.bootstrap, "metrics_data_7", settings={"cleanup.policy": policy})
    with pytest.raises(Conflict, match=r"'metrics_data_7' is compacted.*cleanup\.policy to delete"):
        await cw.wal("metrics").region(7)
    assert await cw.log("metrics_data_7").bounds() == (0, 0)
    bare_client.configure(kafka.bootstrap, "metrics_data_7", {"cleanup.policy": "delete", "retention.ms": "-1"})
    await cw.wal("metrics").region(7)


async def test_r19_a_topic_with_a_retention_is_warned_of(cw: Client, caplog: pytest.LogCaptureFixture) -> None:
    await cw.create_topic("metrics_data_7", retention=timedelta(days=7))
    await cw.wal("metrics").region(7)
    assert "topic metrics_data_7 has a retention" in caplog.text
    caplog.clear()
    await cw.wal("metrics").region(8)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@on_kafka
async def test_a_write_is_measured_with_what_kafka_adds_to_a_record(kafka: Broker, cw: Client) -> None:
    bare_client.create(kafka.bootstrap, "metrics_data_7", settings={"max.message.bytes": "10000"})
    async with cw.wal("metrics").region(7) as region:
        limit = writer_of(region)._record_bytes_max
        largest = b"x" * (limit - 64 - 8)
        assert record_bytes(bytes(limit), None) <= 10_000
        with pytest.raises(TooLarge, match=f"the limit of metrics_data_7/0 is {limit}") as large:
            await region.write(42, [largest + b"x"])
        assert large.value.outcome == "not_written"
        assert (await cw.log("metrics_data_7").bounds())[1] == 1, "nothing but the owner record is there"
        await region.write(42, [largest])
        assert await by_table(region) == {42: {1: largest}}


@on_kafka
@pytest.mark.parametrize("kind", ["data", "meta"])
async def test_a_topic_without_room_for_a_snapshot_is_refused(kafka: Broker, cw: Client, kind: str) -> None:
    for other in {"data", "meta"} - {kind}:
        await cw.create_topic(f"metrics_{other}_7")
    bare_client.create(kafka.bootstrap, f"metrics_{kind}_7", settings={"max.message.bytes": "4095"})
    with pytest.raises(Conflict, match=rf"'metrics_{kind}_7' takes records of at most 4095 bytes.*needs 4096: raise"):
        await cw.wal("metrics").region(7)
    assert await cw.log("metrics_data_7").bounds() == (0, 0)
    bare_client.create(kafka.bootstrap, f"metrics_{kind}_8", settings={"max.message.bytes": "4096"})
    async with cw.wal("metrics").region(8) as region:
        for _ in range(100):  # full mappings, and all positions
            await region.write_many({1: [b"x"], 2: [b"y"]})
        await region.snapshot()
    async with cw.wal("metrics").region(8) as region:
        assert region.tables()[2].next_sequence == 101
        assert region.stats().snapshot_lag <= 1


@on_kafka
async def test_a_write_that_a_lowered_limit_refuses_takes_no_other_with_it(kafka: Broker, cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        bare_client.configure(kafka.bootstrap, "metrics_data_7", {"max.message.bytes": "10000"})
        writes = [region.write(table, [b"x" * (20_000 if table == 5 else 100)]) for table in range(10)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        refused = results.pop(5)
        assert isinstance(refused, TooLarge)
        assert refused.outcome == "not_written"
        assert results == [range(1, 2)] * 9
        assert {table: list(entries) for table, entries in (await by_table(region)).items()} == {
            table: [1] for table in range(10) if table != 5
        }


async def test_an_owner_whose_log_was_made_anew_gets_no_ack(cw: Client) -> None:
    """As of a log that lost its end: what the owner knows of it is not there any more."""
    region = await cw.wal("metrics").region(7)
    for n in range(5):
        await region.write(42, [b"%d" % n])
    await cw.delete_topic("metrics_data_7")
    await cw.create_topic("metrics_data_7")
    for _ in range(20):  # more than the old log had: offsets that seem to follow must not deceive it
        with pytest.raises(CordwoodError) as lost:
            await region.write(42, [b"more"])
        assert lost.value.outcome is not None
    async with cw.wal("metrics").region(7) as region:
        assert await by_table(region) == {}
        await region.write(42, [b"new"])
        assert sum(map(len, (await by_table(region)).values())) == 1


@pytest.mark.parametrize("engine", ["embedded"])
@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_r11_an_owner_gets_no_ack_after_its_log_lost_its_end(cw: Client, lost: int) -> None:
    wal = cw.wal("metrics")
    region = await wal.region(7)
    for n in range(5):
        await region.write(42, [b"%d" % n])
    await lose_end(cw, "metrics_data_7", lost)
    outcomes = []
    for _ in range(6):
        with pytest.raises(Corrupt, match="open region 7 again") as told:
            await region.write(42, [b"more"])
        outcomes.append(told.value.outcome)
    assert outcomes == ["unknown"] + 5 * ["not_written"]
    with pytest.raises(Corrupt):
        await region.mark_deleted(42, through=1)
    with pytest.raises(Corrupt):
        await region.clean()
    assert repr(region).endswith("broken>")
    again = await wal.region(7)
    assert again is not region
    await region.close()
    left = {n + 1: b"%d" % n for n in range(5 - lost)}
    assert await by_table(again) == {42: left}
    numbers = await again.write(42, [b"new"])
    assert await by_table(again) == {42: {**left, numbers.start: b"new"}}


@pytest.mark.parametrize("engine", ["embedded"])
async def test_r11_an_offset_that_seems_to_follow_a_lost_end_is_no_ack(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FaultyEngine(cw, 0, 0)
    region = await engine.wal("metrics").region(7)
    for n in range(5):
        await region.write(42, [b"%d" % n])
    await lose_end(cw, "metrics_data_7", 1)
    (log,) = engine.logs
    append = log.append
    overtaken = asyncio.Event()
    appends = 0

    async def swapped(batch: Batch, **settings: Any) -> Any:
        nonlocal appends
        appends += 1
        if appends == 1:
            await overtaken.wait()
        offsets = await append(batch, **settings)
        overtaken.set()
        return offsets

    monkeypatch.setattr(log, "append", swapped)
    first = asyncio.create_task(region.write(42, [b"lands at 6"]))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(region.write(42, [b"lands at 5"]))
    for write in (first, second):
        with pytest.raises(Corrupt) as lost:
            await write
        assert lost.value.outcome == "unknown"


@pytest.mark.parametrize("engine", ["embedded"])
async def test_r11_a_renewal_that_lands_below_what_was_read_is_the_last_one(cw: Client) -> None:
    """The next one would land where it seems to follow, and be void for every reader: the first one counts for them."""
    engine = FaultyEngine(cw, 0, 0, ["refused"])
    region = await engine.wal("metrics").region(7)
    for n in range(5):
        await region.write(42, [b"%d" % n])
    await lose_end(cw, "metrics_data_7", 1)
    (log,) = engine.logs
    log.odds = 1
    refused = asyncio.create_task(region.write(42, [b"refused"]))
    await log.went_wrong.wait()
    engine.heal()
    with pytest.raises(Corrupt, match="metrics_data_7/0 continues at 5, and had a record at 5"):
        await refused
    for _ in range(3):
        with pytest.raises(Corrupt):
            await region.write(42, [b"more"])


@pytest.mark.parametrize("engine", ["embedded"])
async def test_r11_a_log_that_lost_its_end_and_grew_again_unseen_is_noticed(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offset of the next renewal follows the owner's last one, but the record before it is another one."""
    engine = FaultyEngine(cw, 0, 0)
    region = await engine.wal("metrics").region(7)
    for n in range(5):
        await region.write(42, [b"%d" % n])
    await lose_end(cw, "metrics_data_7", 1)
    (log,) = engine.logs
    append = log.append
    appends = 0

    async def no_answer(batch: Batch, **settings: Any) -> Any:
        nonlocal appends
        appends += 1
        if appends == 1:
            raise Unavailable("no leader", outcome="not_written", reason="unreachable")
        await append(batch, **settings)  # the renewal, in the place of the lost write
        raise Timeout("no answer", outcome="unknown")

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", no_answer)
        with pytest.raises(Timeout):
            await region.write(42, [b"refused"])
    for _ in range(3):
        with pytest.raises(Corrupt, match="had a record at 5"):
            await region.write(42, [b"more"])


@on_kafka
async def test_a_log_that_lost_its_end_says_so(cw: Client) -> None:
    region = await cw.wal("metrics").region(7)
    for n in range(5):
        await region.write(42, [b"%d" % n])
    await cw.delete_topic("metrics_data_7")
    await cw.create_topic("metrics_data_7")
    # A client of the old topic may fail once more before the new one answers.
    said = r"metrics_data_7/0 continues at \d, and had a record at 5: .*: open region 7 again"
    with pytest.raises(Corrupt, match=said):
        while True:
            try:
                await region.write(42, [b"more"])
            except Corrupt:
                raise
            except CordwoodError:
                await asyncio.sleep(0.05)

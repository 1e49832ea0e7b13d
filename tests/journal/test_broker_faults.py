"""A journal on three Kafka servers: its leaders die, are paused and come back, and every acked event counts once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

import cordwood
from cordwood import Client, Journal
from cordwood.testing.kafka import Cluster
from tests.support.crash.programs import Output, program
from tests.support.journal.under_faults import SECONDS, Pipeline, Reader, Rival, Work, Writer, payloads

KEYS = [f"key-{number}" for number in range(6)]
RACED = "raced"


@pytest.mark.processes
@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_acked_events_count_once_while_leaders_change(kafka_cluster: Cluster, tmp_path: Path, fault: str) -> None:
    topic = f"faults-{fault}"
    store = f"sqlite:{tmp_path / 'store.db'}"
    async with cordwood.connect(kafka_cluster.url) as cw:
        journal = cw.journal(topic, store=store, partitions=2, replicate=True)
        writers = [Writer(journal, key) for key in KEYS]
        pipelines = [Pipeline(journal, f"piped-{number}") for number in range(2)]
        rival = Rival(journal, RACED, "this")
        readers = [Reader(journal, writer, recovers=at % 2 == 1) for at, writer in enumerate(writers[:4])]
        all_work: list[Work] = [*writers, *pipelines, rival, *readers]
        await journal.pointer(RACED)  # makes the topic
        with program("tests.support.journal.under_faults", kafka_cluster.url, store, topic, RACED) as other:
            ended = asyncio.Event()
            tasks = [asyncio.ensure_future(work.run(ended)) for work in all_work]
            try:
                await _until_all_have_done(all_work, other, tasks, 5)
                broken = await asyncio.to_thread(kafka_cluster.leader, topic, 0)
                getattr(broken, fault)()
                await _until_all_have_done(all_work, other, tasks, 3)
            finally:
                ended.set()
                await asyncio.to_thread(kafka_cluster.heal)
                await asyncio.wait(tasks)
            for task in tasks:
                task.result()
            other.kill()
        others = {int(seq_nr): id for _, seq_nr, id in other.lines}
        assert not others.keys() & rival.won.keys()
        rival.won.update(others)
        await _check(cw, topic, store, journal, writers, pipelines, rival)


async def _until_all_have_done(
    all_work: Sequence[Work], other: Output, tasks: "Sequence[asyncio.Task[None]]", calls: int
) -> None:
    """Wait until every task, and the other process, has so many further calls behind it."""
    wanted = [(work, work.done + calls) for work in all_work]
    lines = len(other.lines) + calls
    async with asyncio.timeout(SECONDS):
        while len(other.lines) < lines or any(work.done < enough for work, enough in wanted):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)


async def _check(
    cw: Client,
    topic: str,
    store: str,
    journal: Journal,
    writers: list[Writer],
    pipelines: list[Pipeline],
    rival: Rival,
) -> None:
    """The handle that wrote, a new one, and one after replication return every acked event, once and in order."""

    async def check(handle: Journal) -> None:
        for writer in writers:
            assert await payloads(handle, writer.key) == writer.acked
        for pipeline in pipelines:
            pipeline.check(await payloads(handle, pipeline.key))
        raced = await payloads(handle, RACED)
        assert len(set(raced)) == len(raced)
        assert {seq_nr: raced[seq_nr - 1] for seq_nr in rival.won} == rival.won

    new = cw.journal(topic, store=store, replicate=False)
    await check(new)
    await check(journal)
    await journal.close()  # nothing replicates the Marks of the reads below
    await check(new)
    assert all(new.stats().lag.values())
    await new.catch_up()
    assert set(new.stats().lag.values()) == {0}
    await check(new)

"""Forked children and cancelled callers leave nothing behind."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter

import pytest

import cordwood
from cordwood import Batch
from cordwood.testing.kafka import Broker

PROGRAM = """
import asyncio, os, sys
import cordwood
from cordwood import Batch

url, topic = sys.argv[1:]


def in_child(cw):
    async def use():
        for call in (lambda: cw.log(topic).append(Batch.of([b"inherited"])), lambda: cw.log(topic).bounds()):
            try:
                await call()
            except cordwood.Unavailable:
                pass
            else:
                return 3
        async with cordwood.connect(url) as mine:
            await mine.log(topic).append(Batch.of([b"of the child"]))
        return 0

    return asyncio.run(use())


async def write(cw, value):
    await cw.log(topic).append(Batch.of([value]))


async def connected():
    cw = await cordwood.connect(url)
    await cw.create_topic(topic)
    await write(cw, b"before")
    return cw


async def finish(cw):
    await write(cw, b"after")
    print([record.value.decode() async for batch in cw.log(topic).read() for record in batch])
    await cw.close()


cw = asyncio.run(connected())
pid = os.fork()
if pid == 0:
    os._exit(in_child(cw))
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
asyncio.run(finish(cw))
"""


@pytest.mark.processes
@pytest.mark.slow
def test_a_forked_child_connects_anew_and_its_parent_goes_on(kafka: Broker, topic: str) -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, kafka.url, topic], capture_output=True, text=True, timeout=90)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "['before', 'of the child', 'after']\n"


async def test_cancelled_appends_are_there_once_or_not_at_all(kafka: Broker, topic: str) -> None:
    async with cordwood.connect(kafka.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        tasks = [asyncio.ensure_future(log.append(Batch.of([b"%d" % number]))) for number in range(200)]
        await tasks[0]
        for task in tasks[1::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await log.append(Batch.of([b"last"]))
        stored = [record.value async for batch in log.read() for record in batch]
        assert stored[-1] == b"last"
        assert max(Counter(stored).values()) == 1
        for number, result in enumerate(results):
            if isinstance(result, range):
                assert stored[result[0]] == b"%d" % number
            else:
                assert isinstance(result, asyncio.CancelledError)
        assert sum(isinstance(result, range) for result in results) >= 100


async def test_a_closed_connection_leaves_no_thread(kafka: Broker, topic: str) -> None:
    async def use() -> None:
        async with cordwood.connect(kafka.url) as cw:
            await cw.create_topic(topic, exist_ok=True)
            await cw.log(topic).append(Batch.of([b"a"]))
            async for _ in cw.log(topic).read():
                pass

    await use()
    assert [thread.name for thread in threading.enumerate() if "kafka" in thread.name] == []

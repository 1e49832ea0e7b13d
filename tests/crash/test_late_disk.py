"""A disk that answers late: who closes may stop waiting, but nobody else gets the folder before it has answered."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Timeout, Unavailable

OPEN_IT = "import cordwood, sys; cordwood.sync.connect(sys.argv[1]).close()"


class LateDisk:
    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateDisk]:
    """Every fdatasync waits while it does not answer."""
    disk, fdatasync = LateDisk(), os.fdatasync

    def late(descriptor: int) -> None:
        if not disk.answers.is_set():
            disk.asked.set()
            disk.answers.wait(60)
        fdatasync(descriptor)

    monkeypatch.setattr(os, "fdatasync", late)
    yield disk
    disk.answers.set()


async def opened_by_another_process(url: str) -> bool:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN_IT, url, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0 or b"is being written by process" in errors, errors
    return process.returncode == 0


@pytest.mark.processes
async def test_a_folder_whose_close_timed_out_stays_locked_until_its_last_write_is_decided(
    tmp_path: Path, disk: LateDisk
) -> None:
    url = f"file:{tmp_path / 'data'}"
    client = await cordwood.connect(url, timeout=0.5)
    await client.create_topic("a")
    log = client.log("a")
    await log.append(Batch.of([b"before"]))
    disk.answers.clear()
    late = asyncio.create_task(log.append(Batch.of([b"late"]), timeout=60))
    assert await asyncio.to_thread(disk.asked.wait, 30)
    with pytest.raises(Timeout, match="stays locked"):
        await client.close()
    assert not await opened_by_another_process(url)
    with pytest.raises(Unavailable, match="still being closed"):
        await cordwood.connect(url)
    disk.answers.set()
    # Acked by a process that still owns the folder: nobody has cut it off.
    assert await late == range(1, 2)
    async with asyncio.timeout(30):
        while not await opened_by_another_process(url):
            pass
    async with cordwood.connect(url) as client:
        values = [value async for batch in client.log("a").read() for value in batch.values]
    assert values == [b"before", b"late"]

"""A disk that answers late: who closes may stop waiting, but nobody else gets the folder before it has answered.

A read times out, and loses nothing by trying again.
"""

import asyncio
import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Client, Timeout, Unavailable
from cordwood.log.calls import threads
from cordwood.log.native.api import engine as embedded
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.folder import process as folder_module
from cordwood.log.native.folder.lock import is_written
from cordwood.log.native.folder.published import METADATA_OWNER, Owner, PublishedWriter
from cordwood.log.native.folder.writer import FolderWriter

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


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateDisk]:
    """Every read of a file waits while it does not answer."""
    disk, preadv = LateDisk(), os.preadv

    def late(descriptor: int, buffers: list[memoryview], position: int) -> int:
        if not disk.answers.is_set():
            disk.asked.set()
            disk.answers.wait(60)
        return preadv(descriptor, buffers, position)

    monkeypatch.setattr(os, "preadv", late)
    yield disk
    disk.answers.set()


BATCHES = 40
TOO_LATE = r"^reading a/0 took more than 0\.2 s: continue to read, which loses nothing, or connect with more time$"


@pytest.fixture
async def long_log(tmp_path: Path) -> Path:
    """More steps of a reader than it reads ahead."""
    async with cordwood.connect(tmp_path / "data") as client:
        await client.create_topic("a")
        for _ in range(BATCHES):
            await client.log("a").append(Batch.of([bytes(1_000_000)]))
    return tmp_path / "data"


async def opened_by_another_process(url: str) -> bool:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN_IT, url, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0 or b"is being written by process" in errors, errors
    return process.returncode == 0


@pytest.mark.processes
async def test_a_folder_whose_close_timed_out_stays_locked_for_its_last_write(tmp_path: Path, disk: LateDisk) -> None:
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


async def test_an_append_times_out_though_its_second_try_waits_for_the_disk(
    tmp_path: Path, disk: LateDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(tmp_path / "data") as client:
        await client.create_topic("a")
        log = client.log("a")
        await log.append(Batch.of([b"before"]))
        late = os.fdatasync

        def failing_then_late(descriptor: int) -> None:
            if not disk.answers.is_set():
                late(descriptor)
            elif "published/catalog" in os.readlink(f"/proc/self/fd/{descriptor}"):
                raise OSError(errno.EIO, "the disk fails")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", failing_then_late)
            await client.create_topic("b")  # publishing it fails, and is tried again
            disk.answers.clear()
            assert await asyncio.to_thread(disk.asked.wait, 30)
            with pytest.raises(Timeout) as caught:
                await asyncio.wait_for(log.append(Batch.of([b"late"]), timeout=0.2), 10)
            assert caught.value.outcome == "unknown"
        disk.answers.set()


@pytest.mark.parametrize("switched", [False, True], ids=["in its plog", "into a new plog"])
async def test_an_append_times_out_though_publishing_waits_for_the_disk(
    tmp_path: Path, disk: LateDisk, monkeypatch: pytest.MonkeyPatch, switched: bool
) -> None:
    async with cordwood.connect(tmp_path / "data") as client:
        await client.create_topic("a")
        log = client.log("a")
        if not switched:
            await log.append(Batch.of([b"before"]))
        put_end = PublishedWriter.put_end

        def late(writer: PublishedWriter, slot: int, owner: Owner, durable: Durable) -> None:
            if owner != METADATA_OWNER and durable.next_offset > (0 if switched else 1):
                disk.answers.wait(60)
            put_end(writer, slot, owner, durable)

        monkeypatch.setattr(PublishedWriter, "put_end", late)
        monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)  # only that waits
        disk.answers.clear()
        with pytest.raises(Timeout) as caught:
            await asyncio.wait_for(log.append(Batch.of([b"late"]), timeout=0.2), 10)
        assert caught.value.outcome == "unknown"
        disk.answers.set()


async def closed_in_time(client: Client, data: Path, disk: LateDisk) -> None:
    """Its close times out, and the folder is released when the disk has answered."""
    with pytest.raises(Timeout, match="stays locked"):
        await asyncio.wait_for(client.close(), 30)
    assert is_written(data / "lock")
    disk.answers.set()
    async with asyncio.timeout(30):
        while is_written(data / "lock"):
            await asyncio.to_thread(disk.answers.wait)


async def test_a_folder_is_closed_in_time_though_a_topic_is_being_made(tmp_path: Path, disk: LateDisk) -> None:
    client = await cordwood.connect(tmp_path / "data", timeout=0.5)
    disk.answers.clear()
    making = asyncio.ensure_future(client.create_topic("a", timeout=60))
    assert await asyncio.to_thread(disk.asked.wait, 30)
    await closed_in_time(client, tmp_path / "data", disk)
    assert (await making).name == "a"


async def test_a_folder_is_closed_in_time_though_its_retention_is_under_way(
    tmp_path: Path, disk: LateDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enforce_retention(engine: FolderWriter) -> None:
        if not disk.answers.is_set():
            disk.asked.set()
            disk.answers.wait(60)

    monkeypatch.setattr(FolderWriter, "enforce_retention", enforce_retention)
    monkeypatch.setattr(folder_module, "_RETENTION_SECONDS", 0.01)
    client = await cordwood.connect(tmp_path / "data", timeout=0.5)
    disk.answers.clear()
    assert await asyncio.to_thread(disk.asked.wait, 30)
    await closed_in_time(client, tmp_path / "data", disk)


@pytest.mark.parametrize("read_only", [False, True], ids=["by the writer", "beside it"])
async def test_a_read_on_a_silent_disk_times_out_and_continues_later(
    long_log: Path, reads: LateDisk, read_only: bool
) -> None:
    async with cordwood.connect(long_log, timeout=0.2, read_only=read_only) as client:
        reader = client.log("a").read()
        offsets = [*(await anext(reader)).offsets]
        reads.answers.clear()
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(Timeout, match=TOO_LATE):
                while True:
                    offsets += (await anext(reader)).offsets
        assert time.monotonic() - began < 10
        assert len(offsets) < BATCHES
        reads.answers.set()
        async for batch in reader:
            offsets += batch.offsets
    assert offsets == list(range(BATCHES))


def test_a_blocking_read_that_the_disk_does_not_answer_is_told_in_time_too(long_log: Path, reads: LateDisk) -> None:
    with cordwood.sync.connect(long_log, timeout=0.2, read_only=True) as client:
        reader = client.log("a").read()
        offsets = [*next(reader).offsets]
        reads.answers.clear()
        for _ in range(3):
            with pytest.raises(Timeout, match=TOO_LATE):
                while True:
                    offsets += next(reader).offsets
        reads.answers.set()
        for batch in reader:
            offsets += batch.offsets
    assert offsets == list(range(BATCHES))


async def test_closing_a_reader_on_a_silent_disk_takes_no_longer_than_a_call(long_log: Path, reads: LateDisk) -> None:
    async with cordwood.connect(long_log, timeout=0.2, read_only=True) as client:
        began = time.monotonic()
        with pytest.raises(Timeout):
            async with client.log("a").read() as reader:
                await anext(reader)
                reads.answers.clear()
                async for _ in reader:
                    pass
        assert time.monotonic() - began < 10
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        reads.answers.set()
        del reader
    # The connection has waited for its readers.
    assert not [name for name in open_files(long_log) if name.endswith(".plog")]


async def test_closing_takes_no_longer_for_many_readers_than_for_one(long_log: Path, reads: LateDisk) -> None:
    client = await cordwood.connect(long_log, timeout=0.3, read_only=True)
    readers = [client.log("a").read() for _ in range(8)]
    reads.answers.clear()
    for reader in readers:
        with pytest.raises(Timeout):
            await asyncio.wait_for(anext(reader), 5)
    began = time.monotonic()
    with pytest.raises(Timeout):
        await client.close()
    assert time.monotonic() - began < 8 * 0.3


async def test_readers_on_a_silent_disk_leave_half_of_a_close_to_the_folder(
    long_log: Path, reads: LateDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await cordwood.connect(long_log, timeout=2)
    reader = client.log("a").read()
    await anext(reader)
    reads.answers.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            async for _ in reader:
                pass
    close, loop = reader.close, asyncio.get_running_loop()
    began: list[float] = []
    left: list[float] = []

    async def noted() -> None:
        began.append(loop.time())
        await close()

    def in_a_thread(name: str, function: Callable[[], None]) -> Future[None]:
        assert isinstance(function, partial)
        left.append(began[0] + 2 - loop.time())
        left.extend(function.args)
        reads.answers.set()
        return threads.in_a_thread(name, function)

    monkeypatch.setattr(reader, "close", noted)
    monkeypatch.setattr(embedded, "in_a_thread", in_a_thread)
    await client.close()
    of_all, of_the_folder = left
    # To the end of the time that the close has in all, and not beyond.
    assert of_the_folder == pytest.approx(of_all, abs=0.5)


async def test_two_who_close_one_reader_are_not_cancelled_by_each_other(long_log: Path, reads: LateDisk) -> None:
    client = await cordwood.connect(long_log, timeout=0.2, read_only=True)
    readers = [client.log("a").read() for _ in range(6)]  # more than there are threads
    reads.answers.clear()
    for reader in readers:
        with pytest.raises(Timeout):
            await anext(reader)
    first = asyncio.ensure_future(readers[-1].close())
    await asyncio.sleep(0.1)  # it gives up while the second one waits
    assert [*await asyncio.gather(first, readers[-1].close(), return_exceptions=True)] == [None, None]
    reads.answers.set()
    await client.close()


async def test_a_reading_connection_is_closed_in_time_on_a_silent_disk(long_log: Path, reads: LateDisk) -> None:
    client = await cordwood.connect(long_log, timeout=0.2, read_only=True)
    reads.answers.clear()
    with pytest.raises(Timeout):
        await client.log("a").bounds()
    with pytest.raises(Timeout, match=r"closing .* its files are closed when the disk has answered"):
        await asyncio.wait_for(client.close(), 10)
    reads.answers.set()
    async with asyncio.timeout(30):
        while open_files(long_log):
            await asyncio.to_thread(reads.answers.wait)


def open_files(folder: Path) -> list[str]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue  # the one that lists
    return [name for name in names if name.startswith(str(folder))]


@pytest.mark.parametrize("read_only", [False, True], ids=["by the writer", "beside it"])
async def test_a_follower_waits_for_growth_for_longer_than_a_call_may_take(tmp_path: Path, read_only: bool) -> None:
    data = tmp_path / "data"
    async with cordwood.connect(data) as client:
        await client.create_topic("a")
    # A look at the disk must be done in that time also on a busy machine.
    async with cordwood.connect(data, timeout=1, read_only=read_only) as following, cordwood.connect(data) as client:
        task = asyncio.ensure_future(anext(following.log("a").read(follow=True)))
        done, _ = await asyncio.wait([task], timeout=2)
        assert not done
        await client.log("a").append(Batch.of([b"news"]))
        assert list((await asyncio.wait_for(task, 10)).values) == [b"news"]

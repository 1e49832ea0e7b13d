"""Opening and closing a folder: by whom it is waited for, and who has it when nobody waits any more."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Client, InvalidInput, Timeout, Unavailable
from cordwood.log.native.api import engine as embedded
from cordwood.log.native.env.disk import RealDisk, RealFile
from cordwood.log.native.folder import process as folder_module
from cordwood.log.native.folder.lock import is_written


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def given_up_by_cancelling(data: Path) -> None:
    connecting = asyncio.ensure_future(cordwood.connect(data)._connect())
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


async def given_up_in_time(data: Path) -> None:
    with pytest.raises(Timeout, match="opening"):
        await cordwood.connect(data, timeout=0.01)


@pytest.mark.parametrize("give_up", [given_up_by_cancelling, given_up_in_time])
def test_a_folder_opened_too_late_is_released_though_the_loop_ended(
    data: Path, monkeypatch: pytest.MonkeyPatch, give_up: Callable[[Path], asyncio.Future[None]]
) -> None:
    go_on, opened, open_it = threading.Event(), threading.Event(), folder_module.open_for_writing

    def open_late(path: Path) -> folder_module.OpenFolder:
        go_on.wait(60)
        folder = open_it(path)
        opened.set()
        return folder

    monkeypatch.setattr(embedded, "open_for_writing", open_late)
    asyncio.run(give_up(data))  # type: ignore[arg-type]  # a coroutine function
    go_on.set()
    assert opened.wait(30)
    with folder_module._folder_lock(data):  # held during an open and a close
        pass
    waiting = threading.Event()
    for _ in range(3000):
        if not is_written(data / "lock"):
            return
        waiting.wait(0.01)
    pytest.fail("the folder is still locked")


async def test_opening_and_closing_need_no_thread_of_the_loop(data: Path) -> None:
    busy = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        blocked = asyncio.ensure_future(asyncio.to_thread(busy.wait, 60))
        try:
            async with asyncio.timeout(30), cordwood.connect(data, timeout=20) as cw:
                await cw.create_topic("events")
            assert not blocked.done()
        finally:
            busy.set()
            await blocked


async def test_a_folder_that_closes_slowly_holds_up_no_other(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers, fdatasync = threading.Event(), threading.Event(), os.fdatasync

    def late(descriptor: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(data):
            asked.set()
            answers.wait(60)
        fdatasync(descriptor)

    slow = await cordwood.connect(data)
    await slow.create_topic("events")
    async with cordwood.connect(tmp_path / "other"):
        pass
    monkeypatch.setattr(os, "fdatasync", late)
    late_append = asyncio.ensure_future(slow.log("events").append(Batch.of([b"late"])))
    # An append that is closed while its log is being opened is refused.
    await asyncio.to_thread(asked.wait, 60)
    closing = asyncio.ensure_future(slow.close())
    try:
        await asyncio.sleep(0.1)
        for connect in (partial(cordwood.connect, read_only=True), cordwood.connect):
            async with connect(tmp_path / "other", timeout=20) as cw:
                assert await cw.topics() == []
        assert not closing.done()
    finally:
        answers.set()
    await closing
    assert await late_append == range(1)


async def test_whoever_connects_while_the_folder_is_being_closed_waits_for_that(data: Path) -> None:
    clients: list[Client] = [await cordwood.connect(data)]
    for _ in range(20):
        closing = asyncio.ensure_future(clients.pop().close())
        await asyncio.sleep(0)
        clients.append(await cordwood.connect(data))
        await closing
    await clients.pop().close()


async def test_a_connection_is_entered_once_at_a_time(data: Path) -> None:
    connecting = cordwood.connect(data)
    for _ in range(2):
        async with connecting:
            with pytest.raises(InvalidInput, match="entered already"):
                async with connecting:
                    pytest.fail("entered twice")
    assert not is_written(data / "lock")


async def test_a_connection_whose_first_calls_come_at_once_leaves_no_file_open(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", partitions=2)
    both_open = threading.Barrier(2)
    open_file = RealDisk.open

    def opened(disk: RealDisk, name: str, *, write: bool = False) -> RealFile:
        file = open_file(disk, name, write=write)
        if name == "published/ends":
            # Where one waits until the other has opened it, nobody comes.
            with suppress(threading.BrokenBarrierError):
                both_open.wait(0.2)
        return file

    monkeypatch.setattr(RealDisk, "open", opened)
    async with cordwood.connect(data, read_only=True) as cw:
        await asyncio.gather(*(cw.log("events", partition).bounds() for partition in range(2)))
    assert [path for path in open_files() if path.is_relative_to(data)] == []


def open_files() -> list[Path]:
    files = []
    for descriptor in Path("/proc/self/fd").iterdir():
        # The one that lists them is gone by now.
        with suppress(FileNotFoundError):
            files.append(descriptor.readlink())
    return files


@pytest.mark.parametrize("name", ["cordwood-open", "cordwood-write", "cordwood-expire", "cordwood-timer"])
async def test_a_folder_for_which_no_thread_can_be_had_is_unavailable_and_let_go(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
    start = threading.Thread.start

    def none_of_that_name(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_of_that_name)
        with pytest.raises(Unavailable, match="can't start new thread"):
            await cordwood.connect(data)
    assert not is_written(data / "lock")
    async with cordwood.connect(data) as cw:
        assert await cw.log("events").append(Batch.of([b"a"])) == range(1)


@pytest.mark.parametrize("started", range(7))
async def test_a_folder_that_gets_too_few_threads_is_let_go(
    data: Path, monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    start, left = threading.Thread.start, [started]

    def few(thread: threading.Thread) -> None:
        if thread.name.startswith("cordwood-") and thread.name not in ("cordwood-open", "cordwood-close"):
            if not left[0]:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", few)
        with suppress(Unavailable):
            await (await cordwood.connect(data)).close()
    assert not is_written(data / "lock")
    async with cordwood.connect(data) as client:
        await client.create_topic("a")

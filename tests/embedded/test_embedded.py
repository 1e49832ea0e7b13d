"""What only a folder promises: one writing process, readers beside it, forks, and logs that cost nothing at rest."""

import asyncio
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Batch, Client, InvalidInput, Log, NotFound, Region, Timeout, Trimmed, Unavailable
from cordwood.log.native.api.reader import FolderReader
from cordwood.log.native.coordinator.sqlite import SqliteCoordinator
from cordwood.log.native.folder import process as folder_module
from cordwood.log.native.folder.lock import is_written
from cordwood.log.native.folder.writer import FolderSettings, FolderWriter
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.write_queue import WriteQueue
from tests.support.folder.scripts import Program, program

WRITER = """
with cordwood.sync.connect(url) as cw:
    cw.create_topic("events", exist_ok=True)
    log = cw.log("events")
    log.append(Batch.of([b"0", b"1", b"2"]))
    say("writing")
    while line := told():
        verb, _, rest = line.partition(" ")
        if verb == "append":
            log.append(Batch.of([rest.encode()]))
        elif verb == "trim":
            log.trim(before=int(rest))
        elif verb == "delete":
            cw.delete_topic("events")
        say(verb)
"""


async def values_of(log: Log, start: int | None = None) -> list[bytes | None]:
    return [value async for batch in log.read(start) for value in batch.values]


def asked(writer: Program, line: str) -> None:
    writer.tell(line)
    assert writer.says() == line.partition(" ")[0]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


# -- one process writes ----------------------------------------------------------------------------------------


@pytest.mark.processes
async def test_a_second_writing_process_is_told_at_once_who_writes(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        began = time.monotonic()
        with pytest.raises(Unavailable, match=rf"\b{writer.pid}\b") as caught:
            await cordwood.connect(data)
        assert (caught.value.reason, caught.value.pid, caught.value.retryable) == ("busy", writer.pid, True)
        assert time.monotonic() - began < 2
        # The refused one has not harmed the other.
        asked(writer, "append x")
        writer.tell()
        writer.ends()
    async with cordwood.connect(data) as cw:
        assert await values_of(cw.log("events")) == [b"0", b"1", b"2", b"x"]


@pytest.mark.processes
async def test_after_the_writer_was_killed_the_next_one_goes_on(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        asked(writer, "append x")
        writer.kill()
    async with cordwood.connect(data) as cw:
        log = cw.log("events")
        assert await values_of(log) == [b"0", b"1", b"2", b"x"]
        assert await log.append(Batch.of([b"y"])) == range(4, 5)


async def test_the_same_folder_by_another_path_is_shared(data: Path, tmp_path: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        (tmp_path / "link").symlink_to(data)
        async with cordwood.connect(f"file:{tmp_path}/link") as other:
            await other.log("events").append(Batch.of([b"x"]))
        assert await values_of(cw.log("events")) == [b"x"]


# -- connecting ------------------------------------------------------------------------------------------------


async def test_a_relative_path_means_the_folder_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    connecting = cordwood.connect("file:./data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    cw = await connecting
    assert cw.url == f"file:{tmp_path}/data"
    await cw.close()
    assert (tmp_path / "data").is_dir()


def test_on_another_platform_a_folder_is_unavailable_in_one_line(data: Path) -> None:
    code = (
        "import asyncio, sys, cordwood\n"
        "sys.modules['fcntl'] = None\n"  # as Windows has it: nowhere
        "sys.platform = 'win32'\n"
        "async def main():\n"
        f"    await cordwood.connect('file:{data}')\n"
        "try:\n    asyncio.run(main())\n"
        "except cordwood.Unavailable as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("a folder of logs needs Linux, and this is win32\n", "")


def test_a_timeout_is_a_number_of_seconds_above_0(data: Path) -> None:
    for timeout in (0, -1, float("nan")):
        with pytest.raises(
            InvalidInput, match=rf"timeout is {timeout!r} seconds: it (must be more|cannot be less) than 0"
        ):
            cordwood.connect(data, timeout=timeout)
    with pytest.raises(TypeError, match="timeout is a number of seconds, not str"):
        cordwood.connect(data, timeout="30")  # type: ignore[arg-type]  # the wrong type is the test


@pytest.mark.parametrize("timeout", [float("inf"), 10**400], ids=["inf", "10^400"])
def test_a_timeout_that_no_clock_can_count_is_for_ever(data: Path, timeout: float) -> None:
    with cordwood.sync.connect(data, timeout=timeout) as cw:
        cw.create_topic("events", timeout=timeout)
        assert cw.log("events").append(Batch.of([b"0"]), timeout=timeout) == range(1)
        cw.log("events").trim(before=1, timeout=timeout)
    assert not is_written(data / "lock")


async def test_changes_whose_time_is_over_may_happen_and_say_so(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def late(coordinator: SqliteCoordinator) -> Any:
        go_on.wait(30)
        return transaction(coordinator)

    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"0"]))
        transaction = SqliteCoordinator._transaction
        monkeypatch.setattr(SqliteCoordinator, "_transaction", late)
        for change in (
            cw.log("events").trim(before=1, timeout=0.01),
            cw.create_topic("more", timeout=0.01),
            cw.delete_topic("events", timeout=0.01),
        ):
            with pytest.raises(Timeout) as caught:
                await change
            assert caught.value.outcome == "unknown"
        go_on.set()
        async with asyncio.timeout(30):
            while await cw.topics() != ["more"]:
                pass


async def test_a_call_whose_time_is_over_says_how_long_that_was_and_what_to_do(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        with pytest.raises(Timeout, match="listing topics took more than 0 s: try again, or give it more time"):
            await cw.topics(timeout=0)


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_path_that_cannot_be_looked_at_is_unavailable_and_named(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / ("x" * 300)  # a name is 255 bytes at most; a folder without permission fails in the same place
    with pytest.raises(Unavailable, match=r"x{300} cannot be opened"):
        await cordwood.connect(path, read_only=read_only)


async def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for read_only in (False, True):
        with pytest.raises(InvalidInput):
            await cordwood.connect(tmp_path / "file", read_only=read_only)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("slow", [FolderReader, Region])
async def test_a_close_that_is_cancelled_lets_the_folder_go(
    data: Path, monkeypatch: pytest.MonkeyPatch, slow: type[FolderReader] | type[Region]
) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        reader, region = cw.log("events").read(), await cw.wal("metrics").region(7)
        closing = asyncio.Event()

        async def wait(_: object) -> None:
            closing.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(slow, "close", wait)
            close = asyncio.create_task(cw.close())
            await closing.wait()
            close.cancel()
            with pytest.raises(asyncio.CancelledError):
                await close
        assert not folder_module._registry
        await reader.close()
        await region.close()


# -- reading beside the writer ---------------------------------------------------------------------------------


async def check_read_only(cw: Client) -> None:
    assert cw.read_only
    log = cw.log("events")
    for write in (
        lambda: log.append(Batch.of([b"x"])),
        lambda: cw.append("events", Batch.of([b"x"])),
        lambda: log.trim(before=1),
        lambda: cw.create_topic("more"),
        lambda: cw.delete_topic("events"),
    ):
        with pytest.raises(Unavailable, match="read_only") as caught:
            await write()
        assert caught.value.outcome == "not_written"


async def test_a_read_only_connection_in_the_writing_process_refuses_to_write(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"0"]))
        async with cordwood.connect(data, read_only=True) as reading:
            await check_read_only(reading)
            assert await values_of(reading.log("events")) == [b"0"]
        assert await cw.topics() == ["events"]
        assert await cw.log("events").bounds() == (0, 1)


async def test_a_read_only_connection_sees_topics_come_and_go(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("a")
    # Opened without a writer in this process: it has the published files alone.
    async with cordwood.connect(data, read_only=True) as reading:
        assert await reading.topics() == ["a"]
        async with cordwood.connect(data) as cw:
            await cw.create_topic("b")
            assert await reading.topics() == ["a", "b"]
            await cw.delete_topic("a")
            assert await reading.topics() == ["b"]


async def test_a_read_only_connection_without_a_writer_reads_and_changes_nothing(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"0"]))
    before = folder_state(data)
    async with cordwood.connect(data, read_only=True) as reading:
        await check_read_only(reading)
        assert await reading.topics() == ["events"]
        assert await reading.log("events").bounds() == (0, 1)
        assert await values_of(reading.log("events")) == [b"0"]
    assert folder_state(data) == before


def folder_state(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


async def test_a_read_only_connection_makes_no_folder(data: Path) -> None:
    with pytest.raises(Unavailable):
        await cordwood.connect(data, read_only=True)
    assert "data" not in os.listdir(data.parent)


async def test_a_folder_without_anything_is_named_with_what_to_do(data: Path) -> None:
    os.mkdir(data)
    async with cordwood.connect(data, read_only=True) as cw:
        assert await cw.topics() == []
        with pytest.raises(NotFound, match=f"^nothing was ever written to {data}: create a topic in it first$"):
            await cw.log("events").bounds()


@pytest.mark.processes
async def test_a_reader_beside_the_writing_process_sees_what_is_acked(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw:
            await check_read_only(cw)
            log = cw.log("events")
            assert (await cw.topic("events")).partitions == 1
            assert await values_of(log) == [b"0", b"1", b"2"]
            for number in range(3, 10):
                asked(writer, f"append {number}")
                assert await log.bounds() == (0, number + 1)
                assert await values_of(log, number) == [b"%d" % number]


@pytest.mark.processes
async def test_a_read_beside_the_writer_ends_where_the_log_ended_at_the_call(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw:
            reader = cw.log("events").read()
            assert isinstance(reader, FolderReader)
            look_at_end = reader._parts[0]._ends
            assert look_at_end is not None
            look_at_end()  # the look is under way, not awaited
            asked(writer, "append 3")
            assert [value async for batch in reader for value in batch.values] == [b"0", b"1", b"2"]
            assert await values_of(cw.log("events")) == [b"0", b"1", b"2", b"3"]


@pytest.mark.processes
async def test_a_follower_beside_the_writing_process_sees_what_comes(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw, cw.log("events").read(3, follow=True) as reader:
            for number in range(3, 8):
                waiting = asyncio.ensure_future(anext(reader))
                await asyncio.sleep(0.02)
                assert not waiting.done()
                asked(writer, f"append {number}")
                assert list((await asyncio.wait_for(waiting, 10)).values) == [b"%d" % number]


@pytest.mark.processes
async def test_a_reader_beside_the_writing_process_is_told_of_a_trim(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw:
            log = cw.log("events")
            asked(writer, "trim 2")
            assert await log.bounds() == (2, 3)
            with pytest.raises(Trimmed) as caught:
                await values_of(log, 0)
            assert caught.value.start == 2
            asked(writer, "trim 3")
            assert await log.bounds() == (3, 3)
            asked(writer, "append 3")
            assert await values_of(log) == [b"3"]


@pytest.mark.processes
async def test_a_reader_outlives_the_writing_process(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw:
            asked(writer, "append 3")
            writer.kill()
            assert await values_of(cw.log("events")) == [b"0", b"1", b"2", b"3"]


# -- forks -----------------------------------------------------------------------------------------------------

FORK = """
def unavailable(call):
    try:
        call()
    except cordwood.Unavailable as error:
        return True
    return False

async def child(cw, log, reader, several):
    failed = []
    for name, call in {
        "topics": cw.topics, "topic": lambda: cw.topic("events"), "create": lambda: cw.create_topic("x"),
        "delete": lambda: cw.delete_topic("events"), "spread": lambda: cw.append("events", Batch.of([b"x"])),
        "append": lambda: log.append(Batch.of([b"x"])), "bounds": log.bounds, "trim": lambda: log.trim(before=1),
        "next": lambda: anext(reader), "close": cw.close, "fetch": lambda: log.fetch([0]),
        "next of several": lambda: anext(several), "close several": several.close,
    }.items():
        try:
            await asyncio.wait_for(call(), 5)
        except cordwood.Unavailable:
            continue
        except BaseException as error:
            failed.append(f"{name}: {error!r}")
            continue
        failed.append(f"{name}: went through")
    for name, call in {
        "read": log.read, "read several": lambda: cw.read("events"), "position": lambda: several.position(0),
        "add": lambda: several.add(1, 0), "drop": lambda: several.drop(0),
    }.items():
        if not unavailable(call): failed.append(name)
    return failed

async def anew():
    async with cordwood.connect(url, read_only=True) as cw:
        return [value async for batch in cw.log("events").read() for value in batch.values]

async def open_all():
    cw = await cordwood.connect(url)
    await cw.create_topic("events")
    log = cw.log("events")
    await log.append(Batch.of([b"0"]))
    several = cw.read("events", follow=True)
    await anext(several)
    reader = log.read()
    return cw, log, reader, several

cw, log, reader, several = asyncio.run(open_all())
until_parent_closes, held_by_parent = os.pipe()
pid = os.fork()
if not pid:
    os.close(held_by_parent)
    say(asyncio.run(child(cw, log, reader, several)))
    say(asyncio.run(anew()))
    os.read(until_parent_closes, 1)
    os._exit(0)
told()
asyncio.run(log.append(Batch.of([b"1"])))
asyncio.run(cw.close())
say("closed")
told()
os.close(held_by_parent)
os.waitpid(pid, 0)
"""


@pytest.mark.processes
async def test_in_a_forked_child_a_connection_is_unavailable_and_holds_no_lock(data: Path) -> None:
    with program(FORK, data) as forked:
        assert forked.says() == "[]"
        assert forked.says() == "[b'0']"
        with pytest.raises(Unavailable, match=rf"\b{forked.pid}\b"):
            await cordwood.connect(data)
        forked.tell("append and close")
        assert forked.says() == "closed"
        # The child lives on, and does not block it.
        async with cordwood.connect(data) as cw:
            assert await values_of(cw.log("events")) == [b"0", b"1"]
        forked.tell("end")
        forked.ends()


BLOCKING_FORK = """
cw = cordwood.sync.connect(url)
cw.create_topic("events")
log = cw.log("events")
for number in range(3):
    log.append(Batch.of([b"%d" % number]))
reader = log.read()
next(reader)
pid = os.fork()
if not pid:
    for call in (cw.topics, lambda: log.append(Batch.of([b"x"])), lambda: next(reader), log.read, cw.close):
        try:
            call()
        except cordwood.Unavailable as error:
            assert (error.outcome, error.reason) == ("not_written", "forked"), error
        else:
            os._exit(1)
    with cordwood.sync.connect(url, read_only=True) as anew:
        values = [value for batch in anew.log("events").read() for value in batch.values]
    os._exit(0 if values == [b"0", b"1", b"2"] else 2)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
log.append(Batch.of([b"3"]))
cw.close()
say("closed")
"""


@pytest.mark.processes
def test_in_a_forked_child_the_blocking_twin_is_unavailable_too(data: Path) -> None:
    with program(BLOCKING_FORK, data) as forked:
        assert forked.says() == "0"
        assert forked.says() == "closed"
        forked.ends()


FORK_WHILE_READING = """
import threading
from cordwood.log.native.env.disk import RealFile

read, reading, forked = RealFile.read, threading.Event(), threading.Event()

def held(file, size, position):
    reading.set()
    forked.wait()
    return read(file, size, position)

async def begin():
    cw = await cordwood.connect(url)
    await cw.create_topic("events")
    log = cw.log("events")
    for number in range(3):
        await log.append(Batch.of([b"%d" % number]))
    begun = log.read()
    await anext(begun)
    RealFile.read = held
    waiting = log.read()
    step = asyncio.create_task(anext(waiting))
    await asyncio.to_thread(reading.wait)
    step.cancel()
    return cw, begun, waiting

cw, *readers = asyncio.run(begin())
pid = os.fork()
if not pid:
    async def child():
        for call in [call for reader in readers for call in (reader.__anext__, reader.close)]:
            try:
                await asyncio.wait_for(call(), 5)
            except cordwood.Unavailable:
                continue
            os._exit(1)
    asyncio.run(child())
    os._exit(0)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
forked.set()
asyncio.run(cw.close())
"""


@pytest.mark.processes
def test_in_a_forked_child_a_reader_ends_without_the_parents_threads(data: Path) -> None:
    with program(FORK_WHILE_READING, data) as forked:
        assert forked.says() == "0"
        forked.ends()


FORK_WHILE_A_BUFFER_IS_TAKEN = """
import signal, threading
from cordwood.log.native.env.disk import _POOL

def read():
    with cordwood.sync.connect(url, read_only=True) as cw:
        return list(cw.log("events").read())

with cordwood.sync.connect(url) as cw:
    cw.create_topic("events")
    cw.log("events").append(Batch.of([bytes(1000)] * 1000))
before = read()
held, forked = threading.Event(), threading.Event()

def take():
    with _POOL._lock:
        held.set()
        forked.wait()

taking = threading.Thread(target=take)
taking.start()
held.wait()
pid = os.fork()
if not pid:
    signal.alarm(20)
    again = read()
    os._exit(0 if again == before else 1)
forked.set()
taking.join()
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.processes
def test_a_forked_child_reads_though_its_parent_was_taking_a_buffer(data: Path) -> None:
    with program(FORK_WHILE_A_BUFFER_IS_TAKEN, data) as forked:
        assert forked.says() == "0"
        forked.ends()


@pytest.mark.processes
def test_a_program_may_end_without_closing(data: Path) -> None:
    script = """
cw = cordwood.sync.connect(url)
cw.create_topic("events")
cw.log("events").append(Batch.of([b"0"]))
reader = cw.log("events").read(follow=True)
next(reader)
say("done")
"""
    with program(script, data) as careless:
        assert careless.says() == "done"
        careless.ends()
    with cordwood.sync.connect(data) as cw:
        assert [value for batch in cw.log("events").read() for value in batch.values] == [b"0"]


# -- logs at rest ----------------------------------------------------------------------------------------------


def open_plogs(folder: Path) -> int:
    """How many plogs of the folder this process has open."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            count += path.suffix == ".plog" and path.is_relative_to(folder)
        except FileNotFoundError:
            continue  # closed meanwhile, as the one that lists is
    return count


def allocated(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*.plog"))


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come to rest"
        await asyncio.sleep(0.05)


async def test_a_thousand_logs_hold_few_files(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        names = [f"log-{index}" for index in range(1000)]
        await asyncio.gather(*map(cw.create_topic, names))
        await asyncio.gather(*(cw.log(name).append(Batch.of([name.encode()])) for name in names))
        await until(lambda: open_plogs(data) <= FolderSettings().open_plogs_max + 2)
        await asyncio.gather(*(cw.log(name).append(Batch.of([b"again"])) for name in names[::50]))
        assert await values_of(cw.log(names[0])) == [names[0].encode(), b"again"]
    assert open_plogs(data) == 0


async def test_logs_that_are_not_written_to_hold_no_file_and_no_empty_space(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = FolderSettings(idle_seconds=0.1)
    monkeypatch.setattr(folder_module, "FolderWriter", partial(FolderWriter, settings=settings))
    monkeypatch.setattr(folder_module, "_QUIET_SECONDS", 0.05)
    async with cordwood.connect(data) as cw:
        logs = []
        for index in range(20):
            await cw.create_topic(f"log-{index}")
            logs.append(cw.log(f"log-{index}"))
            await logs[-1].append(Batch.of([bytes(5000)]))
        # The metadata's own plog stays open, with its space.
        await until(lambda: open_plogs(data) <= 1)
        await until(lambda: allocated(data) < 20 * 64 * 1024 + 2 * 1024 * 1024)
        for log in logs:
            assert await log.append(Batch.of([b"awake"])) == range(1, 2)
            assert await values_of(log, 1) == [b"awake"]
        await until(lambda: open_plogs(data) <= 1)
    assert open_plogs(data) == 0


async def test_a_reader_lets_its_files_go(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
    async with cordwood.connect(data) as cw:
        before = open_plogs(data)
        log = cw.log("events")
        await log.append(Batch.of([b"x"]))
        held = open_plogs(data)
        for _ in range(20):
            async with log.read() as reader:
                await anext(reader)
            async for _batch in log.read():
                pass
        assert open_plogs(data) <= max(held, before + 1)


# -- a disk that hangs -----------------------------------------------------------------------------------------


async def test_appends_run_out_of_time_also_while_they_wait_for_room(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = threading.Event()
    works.set()
    fdatasync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: works.wait() and fdatasync(descriptor))
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        log = cw.log("events")
        await log.append(Batch.of([b"before"]))
        works.clear()
        # 120 MB: more than what a log lets wait in its queue.
        batch = Batch.of([bytes(100_000)])
        appends = [asyncio.ensure_future(log.append(batch, timeout=0.3)) for _ in range(1200)]
        try:
            await asyncio.wait(appends, timeout=5)
            late = sum(not append.done() for append in appends)
        finally:
            works.set()
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert late == 0
        assert {type(result) for result in results} == {Timeout}
        unknown = sum(isinstance(result, Timeout) and result.outcome == "unknown" for result in results)
        (offset,) = await log.append(Batch.of([b"after"]))
        assert offset <= 1 + unknown


async def test_a_follower_that_gives_up_leaves_nothing_behind(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("t")
        log = cw.log("t")
        await log.append(Batch.of([b"x"]))
        async with log.read(start=1, follow=True) as reader:
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(reader), 0.002)
            assert isinstance(reader, FolderReader)
            source = reader._parts[0].source
            assert isinstance(source, WrittenLog)
            assert len(source._growth_wanted) <= 1


async def test_an_ack_that_comes_before_the_log_is_known_to_be_open_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first append opens the log, on a thread that may be slow to say so."""
    acked, asked = threading.Event(), threading.Event()
    submit, end_now = WriteQueue.submit, WrittenLog.end_now

    def slow(queue: WriteQueue, append: Append) -> bool:
        taken = submit(queue, append)
        if queue._name.startswith("slow/") and threading.current_thread() is not threading.main_thread():
            assert acked.wait(10)
            assert asked.wait(10)
            time.sleep(0.05)  # the call has looked by now, unless it waits for this thread
        return taken

    def asking(log: WrittenLog) -> int | None:
        asked.set()
        return end_now(log)

    monkeypatch.setattr(WriteQueue, "submit", slow)
    monkeypatch.setattr(WrittenLog, "end_now", asking)
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("slow")
        await cw.log("slow").append(Batch.of([b"value"]))
        acked.set()
        assert await values_of(cw.log("slow")) == [b"value"]


# -- failures in the background ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda log: log.append(Batch.of([b"x"])),
        lambda log: log.bounds(),
        lambda log: log.offset_at(datetime.now(UTC)),
        lambda log: log.trim(before=1),
        values_of,
    ],
    ids=["append", "bounds", "offset_at", "trim", "read"],
)
async def test_any_next_call_on_a_log_raises_the_error_of_its_retention(
    data: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Log], Awaitable[object]]
) -> None:
    failed = threading.Event()
    trim, keep = SqliteCoordinator.trim, WrittenLog.keep_background_failure

    def failing_once(*arguments: Any) -> None:
        if not failed.is_set():
            raise OSError(errno.EIO, "Input/output error")
        trim(*arguments)

    def kept(*arguments: Any) -> None:
        keep(*arguments)
        failed.set()

    monkeypatch.setattr(SqliteCoordinator, "trim", failing_once)
    monkeypatch.setattr(WrittenLog, "keep_background_failure", kept)
    monkeypatch.setattr(folder_module, "_RETENTION_SECONDS", 0.02)
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events", retention=timedelta(milliseconds=1))
        log = cw.log("events")
        await log.append(Batch.of([b"old", b"old"]))
        assert await asyncio.to_thread(failed.wait, 10)
        with pytest.raises(Unavailable, match="events/0: its retention failed in the background") as caught:
            await call(log)
        assert caught.value.outcome == "not_written"  # of the call that raises it
        await call(log)

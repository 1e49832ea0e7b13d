"""Two threads read ahead for one reader: what they bring comes in the order of the log, and ends where that says."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Corrupt, StoredBatch, Trimmed, Unavailable
from cordwood.log.calls.completion import Wanted
from cordwood.log.native.api import reader as reader_module
from cordwood.log.native.api.reader import PACES, FolderReader
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.reading.blocks import Frames
from cordwood.log.native.stream.reading.cursor import LogCursor, Step
from cordwood.records import decode_header

_BATCHES = 24
_RECORDS = [bytes(1024)] * 1000


@pytest.fixture
def full_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader reads ahead as for a consumer that comes back, from its first step on."""
    monkeypatch.setattr(reader_module, "PACES", PACES[-1:])


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """Eight steps of a reader at its full pace."""
    async with cordwood.connect(tmp_path / "data") as cw:
        await cw.create_topic("events")
        for _ in range(_BATCHES):
            await cw.log("events").append(Batch.of(_RECORDS))
    return tmp_path / "data"


@pytest.mark.usefixtures("full_pace")
async def test_a_step_that_is_decoded_late_is_given_out_in_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_is_decoded = threading.Event()
    decode = Step.decode
    overtaken = []

    def first_waits_for_the_second(step: Step) -> tuple[list[StoredBatch], Corrupt | None]:
        if step.start == 0:
            overtaken.append(later_is_decoded.wait(timeout=60))
        else:
            later_is_decoded.set()
        return decode(step)

    monkeypatch.setattr(Step, "decode", first_waits_for_the_second)
    async with cordwood.connect(folder, read_only=True) as cw:
        offsets = [offset async for batch in cw.log("events").read() for offset in batch.offsets]
    assert overtaken == [True]
    assert offsets == list(range(_BATCHES * len(_RECORDS)))


async def test_what_stands_before_a_damaged_step_is_given_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = Step.decode

    def third_is_damaged(step: Step) -> tuple[list[StoredBatch], Corrupt | None]:
        if step.start >= 6000:
            raise Corrupt(f"damaged at {step.start}")
        return decode(step)

    monkeypatch.setattr(Step, "decode", third_is_damaged)
    seen: list[int] = []
    async with cordwood.connect(folder, read_only=True) as cw:
        with pytest.raises(Corrupt) as caught:
            async for batch in cw.log("events").read():
                seen += batch.offsets
    damaged = int(str(caught.value).split()[-1])
    assert seen == list(range(damaged))


@pytest.mark.usefixtures("full_pace")
@pytest.mark.parametrize("damaged", [5, _BATCHES - 1], ids=["in the middle", "in the last step"])
async def test_a_read_returns_the_records_before_a_damaged_frame_and_no_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damaged: int
) -> None:
    flip_bit_of_batch(folder, damaged)
    decode = Frames.decode
    later_is_decoded = threading.Event()

    def damaged_one_is_late(frames: Frames) -> tuple[list[StoredBatch], Corrupt | None]:
        if frames.first_offset <= 1000 * damaged < frames.next_offset:
            later_is_decoded.wait(timeout=60 if frames.next_offset < 1000 * _BATCHES else 0.2)
        decoded = decode(frames)
        if frames.first_offset > 1000 * damaged:
            later_is_decoded.set()
        return decoded

    monkeypatch.setattr(Frames, "decode", damaged_one_is_late)
    seen: list[int] = []
    async with cordwood.connect(folder, read_only=True) as cw:
        with pytest.raises(Corrupt, match="is damaged at byte"):
            async for batch in cw.log("events").read():
                seen += batch.offsets
        assert seen == list(range(1000 * damaged))
        before = [offset async for batch in cw.log("events").read(stop=1000 * damaged) for offset in batch.offsets]
        assert before == seen


def flip_bit_of_batch(folder: Path, number: int) -> None:
    """In the values of the batch: they hold nothing but zeros."""
    for path in (folder / "plogs").iterdir():
        data = bytearray(path.read_bytes())
        view = memoryview(data)
        at = data.find(b"CORD\x01")
        while at >= 0 and (header := decode_header(view, at)).record_count == len(_RECORDS):
            if header.first_offset == 1000 * number:
                data[at + header.length // 2] ^= 1
                path.write_bytes(data)
                return
            at = data.find(b"CORD\x01", at + header.length)
    raise AssertionError(f"batch {number} is not there")


async def test_a_disk_that_cannot_be_read_is_told_with_the_name_of_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cordwood.connect(folder, read_only=True) as cw:
        reader = cw.log("events").read()
        first = await anext(reader)
        preadv = os.preadv

        def failing(fd: int, buffers: list[memoryview], position: int) -> int:
            if position:
                raise OSError(errno.EIO, "Input/output error")
            return preadv(fd, buffers, position)

        monkeypatch.setattr(os, "preadv", failing)
        with pytest.raises(Unavailable, match=r"reading events/0 failed.*Input/output error") as raised:
            async for _ in reader:
                pass
        assert isinstance(raised.value.__cause__, OSError)
        monkeypatch.undo()
        # It was the disk, not the log: the read continues where it ended.
        rest = [offset async for batch in cw.log("events").read(first.offsets[-1] + 1) for offset in batch.offsets]
        assert rest == list(range(len(first), _BATCHES * len(_RECORDS)))


@pytest.mark.parametrize("follow", [False, True], ids=["to the end", "following"])
async def test_a_process_without_a_thread_to_spare_is_told_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with cordwood.connect(folder) as cw:
        reader = cw.log("events").read(follow=follow)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(Unavailable, match="no thread could be started"):
                await anext(reader)


@pytest.mark.parametrize("follow", [False, True], ids=["to the end", "following"])
async def test_a_read_without_a_start_survives_a_trim_at_the_same_moment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    fetch = LogCursor.fetch

    def trimmed_first(cursor: LogCursor, stop: int | None, read_bytes: int) -> Step | None:
        monkeypatch.undo()
        assert isinstance(cursor._source, WrittenLog)
        cursor._source.trim(1500, lambda: None)
        return fetch(cursor, stop, read_bytes)

    async with cordwood.connect(folder) as cw:
        monkeypatch.setattr(LogCursor, "fetch", trimmed_first)
        first = await anext(cw.log("events").read(follow=follow))
    assert first.offsets == range(1500, 2000)


async def test_a_new_follower_raises_if_records_came_and_were_trimmed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = _BATCHES * len(_RECORDS)
    at_the_end = asyncio.Event()
    growth = FolderReader._growth

    async def at_the_end_then(reader: FolderReader) -> None:
        at_the_end.set()
        await growth(reader)

    async with cordwood.connect(folder) as cw:
        log = cw.log("events")
        await log.trim(before=end)
        monkeypatch.setattr(FolderReader, "_growth", at_the_end_then)
        waiting = asyncio.ensure_future(anext(log.read(follow=True)))
        await at_the_end.wait()
        with monkeypatch.context() as patched:
            patched.setattr(WrittenLog, "_tell_growth", lambda log: None)
            await log.append(Batch.of([b"a", b"b"]))
        await log.trim(before=end + 1)
        await log.append(Batch.of([b"c"]))
        with pytest.raises(Trimmed) as raised:
            await waiting
        assert raised.value.start == end + 1


class _Busy(Future[None]):
    """A thread that is still at the disk; it tells when it is waited for."""

    def __init__(self, waited_for: asyncio.Event) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self._waited_for = waited_for

    def add_done_callback(self, fn: Callable[[Future[None]], object]) -> None:
        self._waited_for.set()
        super().add_done_callback(fn)


@pytest.mark.parametrize("met", ["a step that fails", "damage behind a step"])
async def test_an_error_that_a_cancelled_call_has_met_is_the_next_calls(
    folder: Path, monkeypatch: pytest.MonkeyPatch, met: str
) -> None:
    decode = Step.decode

    def damaged(step: Step) -> tuple[list[StoredBatch], Corrupt | None]:
        if met == "a step that fails":
            raise Corrupt("damaged")
        return decode(step)[0], Corrupt("damaged")

    monkeypatch.setattr(Step, "decode", damaged)
    waited_for = asyncio.Event()

    async def read_on(reader: FolderReader) -> None:
        async for _ in reader:
            pass

    async with cordwood.connect(folder, read_only=True) as cw:
        reader = cw.log("events").read()
        assert isinstance(reader, FolderReader)
        busy = _Busy(waited_for)
        reader._jobs.add(busy)
        reading = asyncio.create_task(read_on(reader))
        await waited_for.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        with pytest.raises(Corrupt, match="damaged"):
            await anext(reader)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        busy.set_result(None)


def close_elsewhere(reader: FolderReader) -> None:
    """In another event loop, beside this one."""
    closing = threading.Thread(target=lambda: asyncio.run(reader.close()))
    closing.start()
    closing.join()


async def test_a_reader_closed_in_another_loop_with_a_batch_ready_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_ready = FolderReader._make_ready

    async def closed_then(reader: FolderReader) -> None:
        monkeypatch.undo()
        await make_ready(reader)
        close_elsewhere(reader)

    async with cordwood.connect(folder, read_only=True) as cw:
        monkeypatch.setattr(FolderReader, "_make_ready", closed_then)
        with pytest.raises(StopAsyncIteration):
            await anext(cw.log("events").read())


async def test_a_follower_closed_in_another_loop_as_its_wait_begins_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growth = FolderReader._growth

    async def closed_meanwhile(reader: FolderReader) -> None:
        class ClosedFirst(Wanted):
            def __init__(self) -> None:
                super().__init__()
                close_elsewhere(reader)

        monkeypatch.setattr("cordwood.log.native.api.reader.Wanted", ClosedFirst)
        await growth(reader)

    async with cordwood.connect(folder) as cw:
        monkeypatch.setattr(FolderReader, "_growth", closed_meanwhile)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(cw.log("events").read(_BATCHES * len(_RECORDS), follow=True)), 20)


async def read_all_steps(reader: FolderReader) -> None:
    """Wait until the threads of the reader have read as far ahead as they may."""
    while jobs := list(reader._jobs):
        await asyncio.wait(list(map(asyncio.wrap_future, jobs)))


def bytes_held(reader: FolderReader) -> int:
    steps = [slot.step for slot in reader._slots]
    ready = [batch for _, batch in reader._ready]
    batches = [*ready, *(batch for step in steps if isinstance(step, list) for batch in step)]
    return sum(batch.values.data_bytes for batch in batches)


@pytest.fixture
async def small_frames(tmp_path: Path) -> Path:
    """Twenty megabytes in frames of 50 KB, each smaller than a reader's first step."""
    async with cordwood.connect(tmp_path / "small") as cw:
        await cw.create_topic("events")
        for _ in range(400):
            await cw.log("events").append(Batch.of([bytes(50_000)]))
    return tmp_path / "small"


async def test_a_reader_that_nobody_reads_from_holds_little(small_frames: Path) -> None:
    async with cordwood.connect(small_frames, read_only=True) as cw:
        readers = [cw.log("events").read() for _ in range(10)]
        for reader in readers:
            assert isinstance(reader, FolderReader)
            await anext(reader)
            await read_all_steps(reader)
            # The rest of its first step, and the one that was read ahead.
            assert bytes_held(reader) <= 2 * PACES[0].step_bytes


async def test_a_consumer_that_comes_back_is_read_ahead_for_at_full_pace(small_frames: Path) -> None:
    async with cordwood.connect(small_frames, read_only=True) as cw:
        reader = cw.log("events").read()
        assert isinstance(reader, FolderReader)
        held = []
        for _ in range(40):
            await anext(reader)
            await read_all_steps(reader)
            held.append(bytes_held(reader))
    most = PACES[-1].step_bytes * PACES[-1].steps_ahead
    assert held[0] < most / 50
    assert most / 2 < max(held) < most + PACES[-1].step_bytes


async def test_a_follower_at_the_end_begins_again_with_small_steps(
    small_frames: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_end = asyncio.Event()
    growth = FolderReader._growth

    async def note_the_end(reader: FolderReader) -> None:
        at_the_end.set()
        await growth(reader)

    monkeypatch.setattr(FolderReader, "_growth", note_the_end)
    async with cordwood.connect(small_frames) as cw:
        log = cw.log("events")
        _, end = await log.bounds()
        reader = log.read(end - 1, follow=True)
        assert isinstance(reader, FolderReader)
        await anext(reader)
        reader._taken = 100
        waiting = asyncio.ensure_future(anext(reader))
        await at_the_end.wait()
        assert reader._pace == PACES[0]
        await log.append(Batch.of([b"more"]))
        assert (await waiting).offsets == range(end, end + 1)

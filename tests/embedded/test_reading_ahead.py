"""Two threads read ahead for one reader: what they bring comes in the order of the log, and ends where that says."""

import errno
import os
import threading
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Corrupt, StoredBatch, Unavailable
from cordwood.log.native.stream.cursor import Step

_BATCHES = 24
_RECORDS = [bytes(1024)] * 1000


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """Eight steps of a reader."""
    async with cordwood.connect(tmp_path / "data") as cw:
        await cw.create_topic("events")
        for _ in range(_BATCHES):
            await cw.log("events").append(Batch.of(_RECORDS))
    return tmp_path / "data"


async def test_a_step_that_is_decoded_late_is_given_out_in_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_is_decoded = threading.Event()
    decode = Step.batches
    overtaken = []

    def first_waits_for_the_second(step: Step) -> list[StoredBatch]:
        if step.start == 0:
            overtaken.append(later_is_decoded.wait(timeout=60))
        else:
            later_is_decoded.set()
        return decode(step)

    monkeypatch.setattr(Step, "batches", first_waits_for_the_second)
    async with cordwood.connect(folder, read_only=True) as cw:
        offsets = [offset async for batch in cw.log("events").read() for offset in batch.offsets]
    assert overtaken == [True]
    assert offsets == list(range(_BATCHES * len(_RECORDS)))


async def test_what_stands_before_a_damaged_step_is_given_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = Step.batches

    def third_is_damaged(step: Step) -> list[StoredBatch]:
        if step.start >= 6000:
            raise Corrupt(f"damaged at {step.start}")
        return decode(step)

    monkeypatch.setattr(Step, "batches", third_is_damaged)
    seen: list[int] = []
    async with cordwood.connect(folder, read_only=True) as cw:
        with pytest.raises(Corrupt) as caught:
            async for batch in cw.log("events").read():
                seen += batch.offsets
    damaged = int(str(caught.value).split()[-1])
    assert seen == list(range(damaged))


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
        # It was the disk, not the log: from where it ended it goes on.
        rest = [offset async for batch in cw.log("events").read(first.offsets[-1] + 1) for offset in batch.offsets]
        assert rest == list(range(len(first), _BATCHES * len(_RECORDS)))

"""An error names what it is about, and what to do about it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch, Client, Conflict, Unavailable

WRITES: dict[str, Callable[[Client], Awaitable[object]]] = {
    "create": lambda cw: cw.create_topic("other"),
    "delete": lambda cw: cw.delete_topic("events"),
    "append": lambda cw: cw.log("events").append(Batch.of([b"x"])),
    "append by key": lambda cw: cw.append("events", Batch.of([b"x"])),
    "trim": lambda cw: cw.log("events").trim(before=0),
}


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    async with cordwood.connect(tmp_path / "data") as cw:
        await cw.create_topic("events")
    return tmp_path / "data"


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("beside_a_writer", [False, True])
async def test_what_only_reads_says_how_to_write(
    data: Path, write: Callable[[Client], Awaitable[object]], beside_a_writer: bool
) -> None:
    if beside_a_writer:
        async with cordwood.connect(data), cordwood.connect(data, read_only=True) as cw:
            with pytest.raises(Unavailable, match="read_only=True: connect without it to write") as caught:
                await write(cw)
    else:
        async with cordwood.connect(data, read_only=True) as cw:
            with pytest.raises(Unavailable, match="read_only=True: connect without it to write") as caught:
                await write(cw)
    assert str(data) in str(caught.value)
    assert caught.value.outcome == "not_written"


async def test_whoever_was_second_is_told_to_read_on(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        log = cw.log("events")
        await log.append(Batch.of([b"first"]))
        with pytest.raises(Conflict, match="events/0 is at offset 1, not at 0: read further and decide again"):
            await log.append(Batch.of([b"second"]), expected=0)

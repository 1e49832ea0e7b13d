"""The writing process deletes a topic that other processes read: they raise, whatever they are doing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Batch, Conflict, CordwoodError, InvalidInput, NotFound, Reader, StoredBatch
from cordwood.log.native.stream.reading.cursor import Extent, Source
from tests.support.folder.scripts import Program, program

GONE = r"^topic 'events' was deleted$"
MANY = 60

WRITER = """
with cordwood.sync.connect(url) as cw:
    log = cw.log("events")
    def append(count):
        for _ in range(int(count)):
            log.append(Batch.of([bytes(1_000_000)]))
    cw.create_topic("events")
    append(1)
    say("writing")
    while line := told():
        verb, _, rest = line.partition(" ")
        if verb == "append":
            append(rest)
        elif verb == "delete":
            cw.delete_topic("events")
        elif verb == "create":
            cw.create_topic("events")
        say(verb)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def asked(writer: Program, *lines: str) -> None:
    for line in lines:
        writer.tell(line)
        assert writer.says() == line.partition(" ")[0]


async def waiting(reader: Reader) -> "asyncio.Task[StoredBatch]":
    """A follower of one record, at its end."""
    await anext(reader)
    task = asyncio.ensure_future(anext(reader))
    # Longer than it takes from one look to the next.
    done, _ = await asyncio.wait([task], timeout=0.1)
    assert not done
    return task


@pytest.mark.processes
@pytest.mark.parametrize("again", [(), ("create", "append 2")], ids=["for good", "and made anew"])
async def test_a_follower_beside_the_writing_process_is_told(data: Path, again: tuple[str, ...]) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw:
            log = cw.log("events")
            reader = log.read(follow=True)
            task = await waiting(reader)
            asked(writer, "delete", *again)
            with pytest.raises(NotFound, match=GONE):
                await asyncio.wait_for(task, 10)
            # The reader was that topic's; the log is that of whatever has the name.
            with pytest.raises(StopAsyncIteration):
                await anext(reader)
            if again:
                assert await log.bounds() == (0, 2)
                assert [len(batch) async for batch in log.read()]


@pytest.mark.processes
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "at its end"])
async def test_a_follower_whose_writer_deleted_the_topic_and_is_gone_is_told(data: Path, killed: bool) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        async with cordwood.connect(data, read_only=True) as cw:
            task = await waiting(cw.log("events").read(follow=True))
            asked(writer, "delete")
            if killed:
                writer.kill()
            else:
                writer.tell()
                writer.ends()
            with pytest.raises(NotFound, match=GONE):
                await asyncio.wait_for(task, 10)


@pytest.mark.processes
@pytest.mark.parametrize("again", [(), ("create", f"append {MANY + 1}")], ids=["for good", "and made anew"])
async def test_a_reader_in_the_middle_of_a_deleted_log_raises_not_found(data: Path, again: tuple[str, ...]) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        asked(writer, f"append {MANY - 1}")
        async with cordwood.connect(data, read_only=True) as cw, cw.log("events").read() as reader:
            read = await anext(reader)
            asked(writer, "delete", *again)
            expected = 0
            with pytest.raises(NotFound, match=GONE):
                while True:
                    assert read.offsets[0] == expected
                    expected = read.offsets[-1] + 1
                    read = await anext(reader)
            assert expected < MANY


async def test_a_follower_older_than_its_own_writer_raises_not_found(data: Path) -> None:
    async with cordwood.connect(data) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"0"]))
    async with cordwood.connect(data, read_only=True) as reading, cordwood.connect(data) as cw:
        task = await waiting(reading.log("events").read(follow=True))
        await cw.delete_topic("events")
        with pytest.raises(NotFound, match=GONE):
            await asyncio.wait_for(task, 10)


@pytest.mark.processes
async def test_a_position_beside_the_writing_process_is_that_of_its_topic(data: Path) -> None:
    with program(WRITER, data) as writer:
        assert writer.says() == "writing"
        asked(writer, "append 2")
        async with cordwood.connect(data, read_only=True) as cw:
            log, old = cw.log("events"), (await cw.topic("events")).id
            follower = asyncio.ensure_future(anext(log.read(start=3, follow=True, topic_id=old)))
            beyond = asyncio.ensure_future(anext(log.read(start=7, follow="wait", topic_id=old)))
            done, _ = await asyncio.wait([follower, beyond], timeout=0.1)
            assert not done
            asked(writer, "delete", "create", "append 10")
            for task in (follower, beyond):
                with pytest.raises((NotFound, Conflict)):
                    await asyncio.wait_for(task, 10)
            new = (await cw.topic("events")).id
            with pytest.raises(Conflict, match=f"its id is {new}, not {old}"):
                await anext(log.read(start=3, follow=True, topic_id=old))
            assert [len(batch) async for batch in log.read(start=9, topic_id=new)] == [1]
            with pytest.raises(InvalidInput, match="ends at 10, and start is 11"):
                await anext(log.read(start=11, follow=True))


class Gone:
    """A source whose topic is deleted, and perhaps created again, between two looks of a reader."""

    def __init__(self, source: Source) -> None:
        self.name, self.plogs, self.topic_id = source.name, source.plogs, source.topic_id

    def extent(self, beyond: int | None = None) -> Extent:
        raise NotFound("topic 'events' was deleted")


@pytest.mark.parametrize(("named", "kind"), [(False, NotFound), (True, Conflict)])
async def test_a_reader_that_names_its_topic_says_that_there_is_a_new_one(
    data: Path, monkeypatch: pytest.MonkeyPatch, named: bool, kind: type[CordwoodError]
) -> None:
    async with cordwood.connect(data) as cw:
        old = (await cw.create_topic("events")).id
        folder: Any = cw._engine._folder  # type: ignore[attr-defined]
        found, sources = folder.source, [Gone(folder.source("events", 0))]
        await cw.delete_topic("events")
        await cw.create_topic("events")
        monkeypatch.setattr(folder, "source", lambda *place: sources.pop() if sources else found(*place))
        with pytest.raises(kind):
            await anext(cw.log("events").read(follow=True, topic_id=old if named else None))

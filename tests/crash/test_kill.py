"""A writing process is killed at random moments, again and again on the same folder; how often, `--kills` says."""

import random
import time
from collections import defaultdict
from pathlib import Path

import pytest

import cordwood
from tests.support.crash.programs import Output, program
from tests.support.crash.traced_values import TOPICS, append_of, digest

pytestmark = pytest.mark.processes

LogName = tuple[str, int]


class Truth:
    """Records that were acked, or that a reopened log has shown: they must stay, unless they are trimmed."""

    def __init__(self) -> None:
        self.records: dict[LogName, dict[int, str]] = defaultdict(dict)
        self.starts: dict[LogName, int] = defaultdict(int)
        self.acks = 0

    def hear(self, lines: list[list[str]]) -> None:
        for verb, *words in lines:
            if verb == "ready":
                continue
            log = words[0], int(words[1])
            if verb == "trim":
                self.starts[log] = max(self.starts[log], int(words[2]))
                continue
            self.acks += 1
            for offset, found in enumerate(words[3:], int(words[2])):
                assert self.records[log].setdefault(offset, found) == found, f"{log}: {offset} is given out twice"

    def check(self, log: LogName, start: int, values: list[bytes]) -> None:
        """`values` is all of the log from `start` on: dense by the way it was read."""
        end = start + len(values)
        assert start >= self.starts[log]
        known = self.records[log]
        lost = [offset for offset in known if offset >= end]
        assert not lost, f"{log}: ends at {end}, but {lost[:5]} were acked or seen"
        appends: dict[str, int] = {}
        for offset, value in enumerate(values, start):
            found = digest(value)
            assert known.setdefault(offset, found) == found, f"{log}: offset {offset} is not what it was"
            append, place, count = append_of(value)
            assert appends.setdefault(append, offset - place) == offset - place, f"{log}: {append} is torn or twice"
            assert offset - place + count <= end, f"{log}: {append} is cut at {end}"
        self.starts[log] = start


async def check_folder(folder: Path, truth: Truth, *, read_only: bool) -> None:
    async with cordwood.connect(f"file:{folder}", read_only=read_only) as cw:
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                log = cw.log(topic, partition)
                start, end = await log.bounds()
                values: list[bytes] = []
                async for batch in log.read(start):
                    assert batch.offsets[0] == start + len(values)
                    values += [value or b"" for value in batch.values]
                assert start + len(values) == end
                truth.check((topic, partition), start, values)


def live_and_die(folder: Path, truth: Truth, life: int, chance: random.Random) -> None:
    with program("tests.support.crash.log_writer", f"file:{folder}", life) as writer:
        writer.wait_for_a_line()
        time.sleep(chance.choice((0, 0.02, 0.1, 0.5)) * chance.random())
        writer.kill()
    truth.hear(writer.lines)


@pytest.mark.timeout(3600)
async def test_a_killed_writer_loses_nothing_that_it_acked(tmp_path: Path, kills: int) -> None:
    chance = random.Random("kills")
    truth = Truth()
    for life in range(kills):
        live_and_die(tmp_path / "data", truth, life, chance)
        # A reader repairs nothing, so crashes are found on top of crashes; now and then a writer recovers.
        await check_folder(tmp_path / "data", truth, read_only=True)
        if chance.random() < 0.3:
            await check_folder(tmp_path / "data", truth, read_only=False)
    await check_folder(tmp_path / "data", truth, read_only=False)
    assert truth.acks > kills
    print(f"{kills} kills, {truth.acks} acks")


@pytest.mark.timeout(3600)
async def test_a_reader_sees_nothing_that_is_gone_after_the_writer_is_killed(tmp_path: Path, kills: int) -> None:
    chance = random.Random("follow")
    truth = Truth()
    folder = tmp_path / "data"
    live_and_die(folder, truth, 0, chance)
    with program("tests.support.crash.log_follower", f"file:{folder}", "single", 0) as follower:
        for life in range(1, 1 + max(3, kills // 3)):
            live_and_die(folder, truth, life, chance)
        await check_folder(folder, truth, read_only=False)
        async with cordwood.connect(f"file:{folder}", read_only=True) as cw:
            # Not the last record that is known: the last life may have been trimmed to its end before anybody looked.
            _, end = await cw.log("single").bounds()
        await_offset(follower, end)
        follower.kill()
    # It began where the log began then.
    next_offset = int(follower.lines[0][1])
    for verb, *words in follower.lines:
        offset = int(words[0])
        if verb == "trimmed":
            assert offset > next_offset
            next_offset = offset
            continue
        assert offset == next_offset, "dense, but for what was trimmed before it came by"
        assert truth.records["single", 0].get(offset, words[1]) == words[1], f"offset {offset} is not what it was"
        next_offset = offset + 1
    assert next_offset == end


def await_offset(follower: Output, end: int) -> None:
    """The follower reaches the end without anybody's help."""
    until = time.monotonic() + 30
    while not any(int(at) + (verb == "saw") >= end for verb, at, *_ in follower.lines[-5000:]):
        assert time.monotonic() < until, f"the follower stands at {follower.lines[-1]}, the log ends at {end}"
        assert follower.process.poll() is None, "the follower ended"
        time.sleep(0.01)

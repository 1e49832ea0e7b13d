"""The owner of a region is killed at random moments, again and again on the same region, as often as `--kills` says."""

import asyncio
import random
import time
from collections import defaultdict

import pytest

import cordwood
from cordwood import Region
from tests.support.crash.programs import program
from tests.support.crash.traced_values import append_of, digest
from tests.support.wal.region_contents import Logs, by_table, logs_of

pytestmark = pytest.mark.processes


class Truth:
    """Entries that were acked, or that an opening has shown: they must be there for ever."""

    def __init__(self) -> None:
        self.logs: dict[int, dict[int, str]] = defaultdict(dict)
        self.acked: dict[int, int] = defaultdict(int)
        """The last number of each table that was acked."""
        self.seen: dict[int, int] = defaultdict(int)
        """Through which number each table was checked."""
        self.acks = 0
        self._firsts: dict[str, int] = {}

    def hear(self, lines: list[list[str]]) -> None:
        for _, name, first, *digests in (line for line in lines if line[0] == "ack"):
            self.acks += 1
            table = int(name)
            for number, found in enumerate(digests, int(first)):
                known = self.logs[table].setdefault(number, found)
                assert known == found, f"table {table}: {number} is given out twice"
                self.acked[table] = max(self.acked[table], number)

    def check(self, table: int, start: int, logs: Logs) -> None:
        """`logs` are all of the table from the number `start` on."""
        last = start + len(logs) - 1
        assert list(logs) == list(range(start, last + 1)), f"table {table}: a hole"
        lost = range(last + 1, max(self.acked[table], self.seen[table]) + 1)
        assert not lost, f"table {table}: {lost} were acked or seen"
        for number, payload in logs.items():
            found = digest(payload)
            assert self.logs[table].setdefault(number, found) == found, f"table {table}: {number} is not what it was"
            write, place, count = append_of(payload)
            assert self._firsts.setdefault(write, number - place) == number - place, f"{write} is torn, or there twice"
            assert number - place + count - 1 <= last, f"{write} is cut"
        self.seen[table] = last

    async def check_new(self, region: Region) -> None:
        """What no opening has shown before."""
        starts = {table: self.seen[table] + 1 for table in region.tables()}
        found = await asyncio.gather(*(logs_of(region.read(table, start)) for table, start in starts.items()))
        for (table, start), logs in zip(starts.items(), found, strict=True):
            self.check(table, start, logs)
        self.check_tables(region)

    async def check_whole(self, region: Region) -> None:
        for table, entries in (await by_table(region)).items():
            self.check(table, 1, entries)
        self.check_tables(region)

    def check_tables(self, region: Region) -> None:
        assert self.acked.keys() <= self.seen.keys(), "a table is missing"
        assert {table: meta.next_sequence for table, meta in region.tables().items()} == {
            table: last + 1 for table, last in self.seen.items()
        }


def live_and_die(url: str, truth: Truth, codec: str, life: int, chance: random.Random) -> None:
    with program("tests.support.wal.busy_owner", url, life, codec) as writer:
        writer.wait_for_a_line()
        time.sleep(chance.choice((0, 0.02, 0.1, 0.5)) * chance.random())
        writer.kill()
    truth.hear(writer.lines)


async def test_a_killed_owner_loses_nothing_that_it_acked(url: str, kills: int) -> None:
    await kill_again_and_again(url, "cordwood", kills)


@pytest.mark.parametrize("engine", ["embedded"])  # on Kafka a write of several records may be cut
async def test_nor_does_one_that_writes_the_proposal_s_records(url: str, kills: int) -> None:
    await kill_again_and_again(url, "rfc", max(3, kills // 3))


async def kill_again_and_again(url: str, codec: str, lives: int) -> None:
    chance = random.Random("wal kills")
    truth = Truth()
    for life in range(lives):
        await asyncio.to_thread(live_and_die, url, truth, codec, life, chance)
        async with (
            cordwood.connect(url, read_only=chance.random() < 0.5) as cw,
            cw.wal("metrics", codec=codec).region(7, create=False) as region,
        ):
            await truth.check_new(region)
    async with cordwood.connect(url) as cw, cw.wal("metrics", codec=codec).region(7, create=False) as region:
        await truth.check_whole(region)
    assert truth.acks > lives
    print(f"{lives} kills, {truth.acks} acks, {sum(truth.seen.values())} logs")

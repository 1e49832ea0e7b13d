"""The owner of a region is killed at random moments, again and again on the same region; a third as often as
`--kills` says."""

import asyncio
import random
import time
from collections import defaultdict

import pytest

import cordwood
from tests.crash.programs import program
from tests.crash.values import append_of, digest
from tests.wal.contents import by_table

pytestmark = pytest.mark.processes


class Truth:
    """What was acked, and what an opening has shown: it must be there for ever."""

    def __init__(self) -> None:
        self.logs: dict[int, dict[int, str]] = defaultdict(dict)
        self.acks = 0

    def hear(self, lines: list[list[str]]) -> None:
        for _, table, first, *digests in (line for line in lines if line[0] == "ack"):
            self.acks += 1
            for number, found in enumerate(digests, int(first)):
                known = self.logs[int(table)].setdefault(number, found)
                assert known == found, f"table {table}: {number} is given out twice"

    def check(self, tables: dict[int, dict[int, bytes]]) -> None:
        for table, numbers in self.logs.items():
            lost = [number for number in numbers if number not in tables.get(table, {})]
            assert not lost, f"table {table}: {lost[:5]} were acked or seen"
        for table, logs in tables.items():
            assert list(logs) == list(range(1, len(logs) + 1)), f"table {table}: a hole"
            writes: dict[str, int] = {}
            for number, payload in logs.items():
                found = digest(payload)
                assert self.logs[table].setdefault(number, found) == found, (
                    f"table {table}: {number} is not what it was"
                )
                write, place, count = append_of(payload)
                assert writes.setdefault(write, number - place) == number - place, f"{write} is torn, or there twice"
                assert number - place + count - 1 in logs, f"{write} is cut"


async def check_region(url: str, truth: Truth, codec: str, *, read_only: bool) -> None:
    async with (
        cordwood.connect(url, read_only=read_only) as cw,
        cw.wal("metrics", codec=codec).region(7, create=False) as region,
    ):
        tables = await by_table(region)
        truth.check(tables)
        assert {table: meta.next_sequence for table, meta in region.tables().items()} == {
            table: len(logs) + 1 for table, logs in tables.items()
        }


def live_and_die(url: str, truth: Truth, codec: str, life: int, chance: random.Random) -> None:
    with program("tests.wal.busy_owner", url, life, codec) as writer:
        writer.wait_for_a_line()
        time.sleep(chance.choice((0, 0.02, 0.1, 0.5)) * chance.random())
        writer.kill()
    truth.hear(writer.lines)


@pytest.mark.timeout(3600)
async def test_a_killed_owner_loses_nothing_that_it_acked(url: str, kills: int) -> None:
    await kill_again_and_again(url, "cordwood", max(3, kills // 3))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["embedded"])  # on Kafka a write of several records may be cut
async def test_nor_does_one_that_writes_the_proposal_s_records(url: str, kills: int) -> None:
    await kill_again_and_again(url, "rfc", max(3, kills // 10))


async def kill_again_and_again(url: str, codec: str, lives: int) -> None:
    chance = random.Random("wal kills")
    truth = Truth()
    for life in range(lives):
        await asyncio.to_thread(live_and_die, url, truth, codec, life, chance)
        await check_region(url, truth, codec, read_only=chance.random() < 0.5)
    await check_region(url, truth, codec, read_only=False)
    assert truth.acks > lives
    print(f"{truth.acks} acks")

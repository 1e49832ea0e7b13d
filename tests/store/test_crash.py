"""A writing process is killed at random moments, again and again on the same file; how often, `--kills` says."""

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from cordwood.store import open_store
from cordwood.testing.store.under_test import events_of, head, numbers
from tests.support.crash.programs import program
from tests.support.store.store_writer import EVENTS, KEYS

pytestmark = pytest.mark.processes


def live_and_die(path: Path, chance: random.Random, word: str) -> int:
    """The last batch that was acked before the kill, which comes after this word."""
    with program("tests.support.store.store_writer", f"sqlite:{path}") as writer:
        writer.wait_for(word)
        time.sleep(chance.choice((0, 0.02, 0.1)) * chance.random())
        writer.kill()
    return max((int(line[1]) for line in writer.lines if line[0] == "acked"), default=0)


def begin_and_die(path: Path, chance: random.Random) -> int:
    """The last batch that was acked before the kill, which comes soon after the file."""
    with program("tests.support.store.store_writer", f"sqlite:{path}") as writer:
        while not path.exists():
            assert writer.process.poll() is None, "the program ended"
            time.sleep(0.0005)
        time.sleep(0.01 * chance.random())
        writer.kill()
    return max((int(line[1]) for line in writer.lines if line[0] == "acked"), default=0)


async def check_store(path: Path, acked: int) -> int:
    """The pointer: no acked batch is missing, and every batch is whole."""
    async with await open_store(f"sqlite:{path}") as store:
        pointer = (await store.pointers("orders")).get(0, 0)
        assert pointer >= acked, "an acked batch is gone"
        for number in range(KEYS if pointer else 0):
            id = f"order-{number}"
            last = pointer * EVENTS
            assert await store.heads("orders", [id]) == {id: head(last)}
            assert numbers(await events_of(store, "orders", id)) == list(range(1, last + 1))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return pointer


@pytest.mark.timeout(3600)
async def test_a_killed_writer_leaves_every_acked_batch_and_its_pointer(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    chance = random.Random("store")
    path = tmp_path / "store.db"
    acked = 0
    for life in range(pytestconfig.getoption("--kills")):
        acked = max(acked, live_and_die(path, chance, ("acked", "open")[life % 2]))
        acked = await check_store(path, acked)
    assert acked > 0


@pytest.mark.timeout(3600)
async def test_a_creator_that_is_killed_leaves_a_path_that_can_be_opened(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    chance = random.Random("creation")
    for turn in range(pytestconfig.getoption("--kills")):
        path = tmp_path / f"store-{turn}.db"
        await check_store(path, begin_and_die(path, chance))

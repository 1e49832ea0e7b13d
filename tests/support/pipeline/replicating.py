"""Histories to replicate, and how tests look at a store and wait for it."""

import os
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from cordwood import Event, pipeline
from cordwood.sync import Journal

TOPIC = "orders"
# Tables of rows that follow from the log alone (R27).
_TABLES = ("journal", "metajournal", "cordwood_dead_letter")


def play(journal: Journal, seed: int, steps: int = 60) -> None:
    """A random history of some journals."""
    chance = random.Random(seed)
    for step in range(steps):
        key = f"key-{chance.randrange(8)}"
        choice = chance.random()
        if choice < 0.8:
            journal.append(key, [Event.json({"step": step, "n": n}) for n in range(chance.randint(1, 5))])
        elif choice < 0.9:
            journal.delete(key, through=chance.randint(1, 10))
        else:
            journal.purge(key)


def rows(store: str, topic: str = TOPIC) -> list[str]:
    """All rows of a store that follow from the log."""
    path = store.removeprefix("sqlite:")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        found = []
        for table in _TABLES:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "topic"]
            selected = db.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE topic = ?", [topic])
            found += sorted(f"{table} {row}" for row in selected)
        return found


def pointers(store: str, topic: str = TOPIC) -> dict[int, int]:
    """How far each partition is replicated, by the store's own table."""
    with closing(sqlite3.connect(f"file:{store.removeprefix('sqlite:')}?mode=ro", uri=True)) as db:
        return dict(db.execute("SELECT partition, offset FROM pointer2 WHERE topic = ?", [topic]))


def behind(url: str | os.PathLike[str], store: str, topics: Sequence[str] = (TOPIC,)) -> int:
    """How many records the store does not have."""
    return sum(row.records for row in pipeline.lag(url, topics, store))


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something that another process brings about."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)

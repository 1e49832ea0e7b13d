"""Arguments outside of the limits of a call, and paths where there can be no store."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cordwood.errors import InvalidInput, NotFound, Unavailable
from cordwood.store import EventStore, KeyChanges, ScanPart, SnapshotGuard, open_store
from cordwood.testing.store.under_test import (
    LIFE,
    appended,
    batch,
    behind,
    bound,
    event,
    events,
    head,
    letter,
    rows_of,
    snapshot,
)

LONE = "order-\ud800"
HUGE = 2**63
Call = Callable[[EventStore], Awaitable[object]]


@pytest.fixture(params=["SQLite", "Cassandra"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    if request.param == "SQLite":
        url = f"sqlite:{tmp_path}/store.db"
    else:
        url = request.getfixturevalue("clean_keyspaces").url
    async with await open_store(url) as store:
        yield store


READS: dict[str, Call] = {
    "start": lambda store: store.events("orders", "order-1", head(5), 0, 6),
    "bytes_max": lambda store: store.events("orders", "order-1", head(5), 1, 6, 0),
    "bytes_max of a scan": lambda store: rows_of(store, "orders", ScanPart(None, None), 0),
    "count": lambda store: store.parts("orders", 0),
    "huge start": lambda store: store.events("orders", "order-1", head(5), HUGE, HUGE + 1),
    "lone surrogate in a topic": lambda store: store.pointers(LONE),
    "lone surrogate in an id": lambda store: store.heads("orders", ["order-1", LONE]),
}

WRITES: dict[str, Call] = {
    "newest": lambda store: store.save_snapshot("orders", "order-1", snapshot(1), 0, behind(3)),
    "pointer moves back": lambda store: store.write(batch("orders", 5, 4)),
    "huge pointer": lambda store: store.write(batch("orders", None, HUGE)),
    "huge number": lambda store: store.write(
        batch("orders", None, 1, KeyChanges("order-1", head(1), [event(HUGE, 1)]))
    ),
    "huge snapshot": lambda store: store.save_snapshot("orders", "order-1", snapshot(HUGE), 1, behind(3)),
    "huge fence": lambda store: store.save_snapshot("orders", "order-1", snapshot(1), 1, SnapshotGuard(0, -HUGE)),
    "a key twice": lambda store: store.write(
        batch("orders", None, 2, appended("order-1", 1, 1), appended("order-1", 2, 2))
    ),
    "rows without a head": lambda store: store.write(
        batch("orders", None, 2, KeyChanges("order-1", None, events(1, 2)))
    ),
    "a row without a number": lambda store: store.write(
        batch("orders", None, 1, KeyChanges("order-1", head(1), [event(1, timestamp=None)]))
    ),
    "lone surrogate in a topic": lambda store: store.bind(LONE, bound()),
    "lone surrogate in an id": lambda store: store.write(batch("orders", None, 1, appended(LONE, 1, 1))),
    "lone surrogate in a payload": lambda store: store.write(
        batch("orders", None, 1, KeyChanges("order-1", head(1), [event(1, payload_txt=LONE)]))
    ),
    "lone surrogate in tags": lambda store: store.write(
        batch("orders", None, 1, KeyChanges("order-1", head(1), [event(1, tags=(LONE,))]))
    ),
    "lone surrogate in a reason": lambda store: store.write(
        batch("orders", None, 1, dead_letters=[letter("orders", 1, reason=LONE)])
    ),
}


@pytest.mark.parametrize("call", READS)
async def test_a_read_beyond_its_limits_is_invalid(store: EventStore, call: str) -> None:
    with pytest.raises(InvalidInput):
        await READS[call](store)
    assert await store.topics() == []


@pytest.mark.parametrize("call", WRITES)
async def test_a_write_beyond_its_limits_is_invalid_and_writes_nothing(store: EventStore, call: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await WRITES[call](store)
    assert caught.value.outcome == "not_written"
    assert await store.topics() == []
    assert await store.heads("orders", ["order-1"]) == {}
    assert await rows_of(store, "orders", ScanPart(None, None)) == []
    assert await store.dead_letters("orders") == []
    # The store works as before.
    assert await store.write(batch("orders", None, 1, appended("order-1", 1, 1)))


async def test_a_value_of_another_type_is_a_type_error(store: EventStore) -> None:
    wrong: Any = object()
    for changes in (
        batch("orders", None, 1, KeyChanges("order-1", head(1), [event(1, payload_txt=wrong)])),
        batch(wrong, None, 1),
        batch("orders", None, wrong),
    ):
        with pytest.raises(TypeError):
            await store.write(changes)
    with pytest.raises(TypeError):
        await store.heads("orders", [wrong])
    with pytest.raises(TypeError):
        await store.delete_snapshots("orders", wrong, LIFE, 1, behind(1))
    assert await store.topics() == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
async def test_a_timeout_is_more_than_zero(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(InvalidInput, match="it must be more than 0"):
        await open_store(f"sqlite:{tmp_path}/store.db", timeout=timeout)


async def test_a_timeout_is_a_number(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a number of seconds, not str"):
        await open_store(f"sqlite:{tmp_path}/store.db", timeout="1")  # type: ignore[arg-type]  # tested on purpose


async def test_an_endless_timeout_is_taken(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:{tmp_path}/store.db", timeout=float("inf")) as store:
        assert await store.write(batch("orders", None, 1))


async def test_sqlite_takes_no_settings(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="config has password, user: leave them out"):
        await open_store(f"sqlite:{tmp_path}/store.db", config={"user": "me", "password": "secret"})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_folder_is_no_store(tmp_path: Path, read_only: bool) -> None:
    with pytest.raises(InvalidInput, match="is a folder, and a store is a file"):
        await open_store(f"sqlite:{tmp_path}", read_only=read_only)


async def test_a_store_in_a_folder_that_does_not_exist_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"the folder {tmp_path}/missing does not exist: create it"):
        await open_store(f"sqlite:{tmp_path}/missing/store.db")


async def test_a_reader_needs_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for _ in range(2):
        with pytest.raises(NotFound, match="there is no store here"):
            await open_store(f"sqlite:{path}", read_only=True)
        path.touch()  # as a crash leaves it that comes first
    assert path.stat().st_size == 0
    assert os.listdir(tmp_path) == ["store.db"]


async def test_a_path_that_cannot_be_written_is_unavailable() -> None:
    # Nobody can create a file here, not even root.
    with pytest.raises(Unavailable, match="check that this user may") as caught:
        await open_store("sqlite:/proc/store.db")
    assert caught.value.reason == "permission"

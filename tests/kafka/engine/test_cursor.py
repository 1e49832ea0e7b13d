"""A cursor whose client is not to be believed: what it leaves out is asked for."""

from contextlib import closing
from typing import Any

import pytest

from cordwood import Batch, Client, Log, Trimmed
from cordwood.log.kafka.cluster import SharedCluster
from cordwood.log.kafka.cursor import Cursor


@pytest.fixture
async def ten(cw: Client, log: Log) -> SharedCluster:
    """A log of ten records, and its cluster."""
    await log.append(Batch.of([b"%d" % number for number in range(10)]))
    cluster = cw._engine._connection.cluster  # type: ignore[attr-defined]
    assert isinstance(cluster, SharedCluster)
    return cluster


def cursor_at(cluster: SharedCluster, log: Log, offset: int) -> Cursor:
    return Cursor(cluster.consumers, cluster.offsets, cluster.settings, log.topic, log.partition, offset)


def messages_from(cluster: SharedCluster, log: Log, offset: int) -> list[Any]:
    """What a client reads from there on."""
    found: list[Any] = []
    with closing(cursor_at(cluster, log, offset)) as cursor:
        while len(found) < 10 - offset:
            found += [message for message in cursor._consume(100, 1) if message.error() is None]
    return found


@pytest.mark.parametrize("first", [0, 3])
async def test_a_jump_over_what_was_trimmed_is_told_also_if_the_client_did_not_notice(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster, first: int
) -> None:
    jumped = messages_from(ten, log, 0)[:first] + messages_from(ten, log, 6)
    await log.trim(before=6)
    with closing(cursor_at(ten, log, 6)) as cursor:
        cursor.offset = 0
        monkeypatch.setattr(cursor, "_consume", lambda wanted, seconds: jumped)
        with pytest.raises(Trimmed) as caught:
            cursor.read(None, 1)
    assert caught.value.start == 6


async def test_a_jump_where_nothing_was_trimmed_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster
) -> None:
    messages = messages_from(ten, log, 0)
    with closing(cursor_at(ten, log, 0)) as cursor:
        monkeypatch.setattr(cursor, "_consume", lambda wanted, seconds: messages[2:4] + messages[7:])
        batch = cursor.read(None, 1)
        assert batch is not None
        assert list(batch.offsets) == [2, 3, 7, 8, 9]
        assert cursor.offset == 10


async def test_a_batch_that_is_read_stays_small_where_records_are_large(log: Log, ten: SharedCluster) -> None:
    for _ in range(30):
        await log.append(Batch.of([bytes(1_000_000)]))
    with closing(cursor_at(ten, log, 0)) as cursor:
        sizes = []
        while cursor.offset < 40:
            batch = cursor.read(40, 1)
            if batch is not None:
                sizes.append(sum(len(value or b"") for value in batch.values))
    assert sum(sizes) > 30_000_000
    assert max(sizes[2:]) <= 5_000_000

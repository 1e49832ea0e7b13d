"""Positions on a cluster whose brokers do not all know the same yet: a second look must agree before a read fails."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from cordwood import Batch, Client, Conflict, InvalidInput, Log
from cordwood.log.kafka.cluster import SharedCluster
from cordwood.log.kafka.offsets import Offsets
from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client
from tests.support.kafka.engine_internals import cluster_of

BEHIND_SECONDS = 1.0


@pytest.fixture
async def offsets(cw: Client, log: Log) -> Offsets:
    """Those of a log of ten records."""
    await log.append(Batch.of([b"%d" % number for number in range(10)]))
    cluster = cluster_of(cw)
    assert isinstance(cluster, SharedCluster)
    return cluster.offsets


def behind(answer: Callable[..., Any], old: object) -> Callable[..., Any]:
    """As a cluster that gives an old answer for a while."""
    until = time.monotonic() + BEHIND_SECONDS

    def ask(*arguments: object, **options: object) -> Any:
        return old if time.monotonic() < until else answer(*arguments, **options)

    return ask


@pytest.mark.parametrize("follow", [False, True])
async def test_a_start_beyond_the_end_of_a_broker_that_is_behind_is_read(
    log: Log, offsets: Offsets, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    monkeypatch.setattr(offsets, "bounds_of", behind(offsets.bounds_of, {0: (0, 3)}))
    async with log.read(start=7, follow=follow) as reader:
        assert list((await anext(reader)).values) == [b"7", b"8", b"9"]


async def test_a_start_that_stays_beyond_the_end_is_invalid_after_a_second_look(
    log: Log, offsets: Offsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    bounds_of = offsets.bounds_of

    def noted(*arguments: Any, **options: Any) -> dict[int, tuple[int, int]]:
        looks.append(time.monotonic())
        return bounds_of(*arguments, **options)

    monkeypatch.setattr(offsets, "bounds_of", noted)
    with pytest.raises(InvalidInput, match="ends at 10, and start is 11"):
        await anext(log.read(start=11, follow=True))
    assert looks[-1] - looks[0] >= 3


async def test_a_broker_that_still_has_the_old_topic_is_no_conflict(
    cw: Client, log: Log, offsets: Offsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = (await cw.topic(log.topic)).id
    monkeypatch.setattr(offsets, "topic_id", behind(offsets.topic_id, "the one before"))
    async with log.read(topic_id=id) as reader:
        assert len(await anext(reader)) == 10


async def test_a_topic_that_is_replaced_behind_the_first_look_is_a_conflict(
    cw: Client, log: Log, offsets: Offsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though all that is asked for comes with the first batch."""
    id = (await cw.topic(log.topic)).id
    answers = [id]
    monkeypatch.setattr(offsets, "topic_id", lambda *arguments: answers.pop(0) if answers else "the next one")
    with pytest.raises(Conflict, match="the next one"):
        await anext(log.read(stop=10, topic_id=id))


async def test_a_follower_that_names_its_topic_is_told_that_it_was_created_again(
    kafka: Broker, cw: Client, log: Log, offsets: Offsets
) -> None:
    id = (await cw.topic(log.topic)).id
    async with log.read(follow=True, topic_id=id) as reader:
        assert len(await anext(reader)) == 10
        await cw.delete_topic(log.topic)
        bare_client.create(kafka.bootstrap, log.topic)
        with pytest.raises(Conflict, match="created again"):
            await anext(reader)

"""A cursor whose client is not reliable: it asks for records that are left out, and replaces a client that hangs."""

import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from cordwood import Batch, Client, Log, NotFound, Timeout, Trimmed
from cordwood.log.kafka.cluster import SharedCluster
from cordwood.log.kafka.consumers import Consumers
from cordwood.log.kafka.cursor import Cursor
from cordwood.log.kafka.offsets import Offsets
from cordwood.log.kafka.settings import ClientKind
from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client
from tests.support.kafka.engine_internals import cluster_of


@pytest.fixture
async def ten(cw: Client, log: Log) -> SharedCluster:
    """A log of ten records, and its cluster."""
    await log.append(Batch.of([b"%d" % number for number in range(10)]))
    cluster = cluster_of(cw)
    assert isinstance(cluster, SharedCluster)
    return cluster


def cursor_at(cluster: SharedCluster, log: Log, offset: int, *, timeout: float = 30, follow: bool = False) -> Cursor:
    settings = replace(cluster.settings, timeout=timeout)
    kind = ClientKind(follow=follow)
    return Cursor(cluster.consumers, cluster.offsets, settings, log.topic, log.partition, offset, kind)


def stand_still(cursor: Cursor) -> None:
    """What a client looks like that has lost its way: it gets nothing, and reports nothing."""
    cursor._consumer.pause(cursor._consumer.assignment())


def nothing(wanted: int, seconds: float) -> list[Any]:
    """The records of a client that hangs."""
    time.sleep(seconds)
    return []


def read_on(cursor: Cursor, stop: int) -> list[int]:
    found: list[int] = []
    while cursor.offset < stop:
        batch = cursor.read(stop, 0.1)
        found += [] if batch is None else batch.offsets
    return found


class _Given:
    """A client that has some messages at once, and then the next ones."""

    def __init__(self, messages: list[list[Any]]) -> None:
        self._messages = messages

    def consume(self, wanted: int, timeout: float) -> list[Any]:
        return self._messages.pop(0) if self._messages else []


def messages_from(cluster: SharedCluster, log: Log, offset: int, end: int = 10) -> list[Any]:
    """What a client reads from there on."""
    found: list[Any] = []
    with closing(cursor_at(cluster, log, offset)) as cursor:
        while len(found) < end - offset:
            found += [message for message in cursor._consume(100, 1) if message.error() is None]
    return found


@pytest.mark.parametrize("first", [0, 3])
async def test_a_jump_over_trimmed_records_raises_though_the_client_is_silent(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster, first: int
) -> None:
    jumped = messages_from(ten, log, 0)[:first] + messages_from(ten, log, 6)
    await log.trim(before=6)
    with closing(cursor_at(ten, log, 6)) as cursor:
        cursor.place.offset = 0
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


def wrong_place(cluster: SharedCluster, log: Log) -> list[Any]:
    """What a client says that has lost its place."""
    with closing(cursor_at(cluster, log, 100)) as beyond:
        while not (said := beyond._consume(1, 1)):
            pass
    return said


async def test_a_client_that_was_wrong_for_a_moment_gives_nothing_twice(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster
) -> None:
    given = messages_from(ten, log, 0)[:3] + wrong_place(ten, log)
    with closing(cursor_at(ten, log, 0)) as cursor:
        steps, consume = [given], cursor._consume
        monkeypatch.setattr(cursor, "_consume", lambda *wanted: steps.pop() if steps else consume(*wanted))
        assert read_on(cursor, 10) == list(range(10))


@pytest.mark.parametrize("at_once", [9, 4, 1])
async def test_a_batch_holds_times_of_one_kind_however_the_client_gives_them(
    kafka: Broker, cw: Client, log: Log, at_once: int
) -> None:
    for kind in ("CreateTime", "LogAppendTime", "CreateTime"):
        bare_client.configure(kafka.bootstrap, log.topic, {"message.timestamp.type": kind})
        await log.append(Batch.of([kind.encode()] * 3, timestamps=[1_700_000_000_000] * 3))
    cluster = cluster_of(cw)
    messages = messages_from(cluster, log, 0, 9)
    with closing(cursor_at(cluster, log, 0)) as cursor:
        real = cursor._consumer
        cursor._consumer = _Given([messages[at : at + at_once] for at in range(0, 9, at_once)])
        found: list[tuple[bytes | None, bool]] = []
        while cursor.offset < 9:
            batch = cursor.read(9, 0.1)
            assert batch is not None
            found += [(value, cursor.broker_time) for value in batch.values]
        cursor._consumer = real
    assert found == [(b"CreateTime", False)] * 3 + [(b"LogAppendTime", True)] * 3 + [(b"CreateTime", False)] * 3


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


@pytest.mark.parametrize("follow", [False, True])
async def test_a_client_that_gets_nothing_of_what_is_there_is_replaced(
    caplog: pytest.LogCaptureFixture, log: Log, ten: SharedCluster, follow: bool
) -> None:
    with closing(cursor_at(ten, log, 4, timeout=6, follow=follow)) as cursor:
        stand_still(cursor)
        assert read_on(cursor, 10) == [4, 5, 6, 7, 8, 9]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{log.name}: read at 4: nothing came for ")
    assert "though the log ends at 10" in record.getMessage()


async def test_a_client_that_is_replaced_may_take_long_to_end(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster
) -> None:
    ended, give_back = threading.Event(), Consumers.give_back
    threads: list[threading.Thread] = []
    in_time: list[bool] = []

    def late(consumers: Consumers, kind: ClientKind, consumer: Any, again: bool) -> None:
        threads.append(threading.current_thread())
        in_time.append(ended.wait(20))
        give_back(consumers, kind, consumer, again)

    with closing(cursor_at(ten, log, 4, timeout=6)) as cursor:
        stand_still(cursor)
        monkeypatch.setattr(Consumers, "give_back", late)
        try:
            assert read_on(cursor, 10) == [4, 5, 6, 7, 8, 9]
        finally:
            ended.set()
        threads[0].join()
    assert all(in_time), "nobody waited for it"


async def test_a_client_that_was_left_without_records_serves_no_other_reader(log: Log, ten: SharedCluster) -> None:
    cursor = cursor_at(ten, log, 4)
    consumer = cursor._consumer
    stand_still(cursor)
    assert cursor.read(10, 0.1) is None
    cursor.close()
    with closing(cursor_at(ten, log, 4)) as other:
        assert other._consumer is not consumer
        consumer = other._consumer
        assert read_on(other, 10) == [4, 5, 6, 7, 8, 9]
    with closing(cursor_at(ten, log, 4)) as other:
        assert other._consumer is consumer, "one that got all serves again"


async def test_a_follower_whose_client_stands_still_at_the_end_gets_what_comes(log: Log, ten: SharedCluster) -> None:
    with closing(cursor_at(ten, log, 0, timeout=6, follow=True)) as cursor:
        read_on(cursor, 10)
        while cursor.place.end < 10:
            cursor.read(None, 0.1)
        stand_still(cursor)
        await log.append(Batch.of([b"ten"]))
        assert read_on(cursor, 11) == [10]


async def test_a_broker_that_has_not_heard_of_a_topic_ends_no_read_of_it(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster
) -> None:
    def unheard(*_: object) -> str:
        raise NotFound("no such topic")

    monkeypatch.setattr(Offsets, "topic_id", unheard)
    with closing(cursor_at(ten, log, 4, follow=True)) as cursor:
        assert read_on(cursor, 10) == [4, 5, 6, 7, 8, 9]
        assert cursor.read(None, 0.1) is None
        await log.append(Batch.of([b"ten"]))
        assert read_on(cursor, 11) == [10]


async def test_a_log_of_which_nothing_comes_in_time_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, log: Log, ten: SharedCluster
) -> None:
    with closing(cursor_at(ten, log, 4, timeout=3)) as cursor:
        monkeypatch.setattr(cursor, "_consume", nothing)
        with pytest.raises(Timeout, match=r"read at 4: nothing came for \d s, though the log ends at 10: try again"):
            read_on(cursor, 10)
    assert len(caplog.records) == 1, "replaced once"


async def test_a_client_that_is_wrong_again_and_again_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, log: Log, ten: SharedCluster
) -> None:
    wrong = wrong_place(ten, log)

    def again(wanted: int, seconds: float) -> list[Any]:
        time.sleep(seconds)
        return wrong

    with closing(cursor_at(ten, log, 4, timeout=3)) as cursor:
        monkeypatch.setattr(cursor, "_consume", again)
        begun = time.monotonic()
        with pytest.raises(Timeout, match="nothing came for"):
            while time.monotonic() < begun + 20:
                cursor.read(10, 0.1)
    assert len(caplog.records) == 1, "replaced once"


async def test_time_that_asking_takes_is_waited_too(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster
) -> None:
    asked = []

    def slow(*_: object, **__: object) -> dict[int, tuple[int, int]]:
        asked.append(True)
        time.sleep(1.2)
        return {0: (0, 10)}

    monkeypatch.setattr("cordwood.log.kafka.cursor._ASK_SECONDS", 0.1)
    with closing(cursor_at(ten, log, 4, timeout=1)) as cursor:
        monkeypatch.setattr(cursor, "_consume", nothing)
        monkeypatch.setattr(cursor._offsets, "bounds_of", slow)
        with pytest.raises(Timeout, match="nothing came for 1 s"):
            read_on(cursor, 10)
    assert len(asked) == 1


async def test_time_that_the_user_takes_is_not_waited_for_the_cluster(
    monkeypatch: pytest.MonkeyPatch, log: Log, ten: SharedCluster
) -> None:
    with closing(cursor_at(ten, log, 0, timeout=1)) as cursor:
        cursor.read(2, 1)
        now = time.monotonic
        with monkeypatch.context() as later:
            later.setattr(time, "monotonic", lambda: now() + 3600)
            later.setattr(cursor, "_consume", lambda wanted, seconds: [])
            assert cursor.read(None, 0) is None
        assert cursor.place.unasked < 1

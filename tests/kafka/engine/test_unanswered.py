"""Requests that the client never ends, and clients that take long to let go of."""

import asyncio
import gc
import logging
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cordwood import Batch, Client, Log, Timeout, Unavailable
from cordwood.log.kafka import deadline
from cordwood.log.kafka.consumers import Consumers
from cordwood.log.kafka.cursor import Cursor
from cordwood.log.kafka.settings import ClientKind
from tests.support.kafka.engine_internals import admin_of, cluster_of
from tests.support.kafka.waiting import values_of


async def test_a_request_that_the_client_never_ends_is_asked_again(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await log.append(Batch.of([b"0"]))
    forgotten: Future[Any] = Future()
    answer, asked = deadline.answer, []

    def first_is_forgotten(what: str, future: "Future[Any]", seconds: float) -> Any:
        asked.append(what)
        return answer(what, forgotten if len(asked) == 1 else future, 0.1 if len(asked) == 1 else seconds)

    monkeypatch.setattr("cordwood.log.kafka.offsets.answer", first_is_forgotten)
    assert await log.bounds() == (0, 1)
    assert len(asked) > 2
    assert "the client has not ended a request" in caplog.text


async def test_a_read_ends_though_its_client_is_still_being_let_go_of(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(Batch.of([b"0"]))
    let_go, give_back = threading.Event(), Consumers.give_back

    def late(consumers: Consumers, kind: ClientKind, consumer: Any, again: bool) -> None:
        let_go.wait(60)
        give_back(consumers, kind, consumer, again)

    monkeypatch.setattr(Consumers, "give_back", late)
    try:
        async with asyncio.timeout(30):
            assert [value async for batch in log.read() for value in batch.values] == [b"0"]
    finally:
        let_go.set()


async def test_a_client_that_stands_still_is_told_and_nothing_is_lost(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(Batch.of([b"0"]))
    go_on, begin = threading.Event(), Cursor._begin

    def late(cursor: Cursor, consumer: Any) -> None:
        go_on.wait(60)
        begin(cursor, consumer)

    monkeypatch.setattr(Cursor, "_begin", late)
    monkeypatch.setattr("cordwood.log.kafka.reader._SILENT_SECONDS", -29.5)
    reader = log.read()
    try:
        for _ in range(2):
            with pytest.raises(Timeout, match=rf"reading {log.name}: the client has not answered for more than 0.5 s"):
                await anext(reader)
    finally:
        go_on.set()
    assert (await anext(reader)).values == [b"0"]


async def test_a_follower_waits_for_as_long_as_nothing_comes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.log.kafka.reader._SILENT_SECONDS", -29)
    async with log.read(follow=True) as reader:
        following = asyncio.ensure_future(anext(reader))
        done, _ = await asyncio.wait([following], timeout=4)
        assert not done
        await log.append(Batch.of([b"0"]))
        assert (await following).values == [b"0"]


async def test_a_user_who_takes_long_over_a_batch_is_no_client_that_stands_still(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordwood.log.kafka.reader._SILENT_SECONDS", -29)
    for _ in range(8):
        await log.append(Batch.of([bytes(1_000_000)] * 2))
    count = 0
    async for batch in log.read():
        count += len(batch)
        await asyncio.sleep(1.5)
    assert count == 16


def test_a_call_that_gets_no_answer_says_so_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now))
    renewed: list[float] = []
    tries = deadline.attempts("t/0: bounds", now + 30, lambda: renewed.append(now))
    given: list[float] = []
    said: list[tuple[float, str]] = []
    while now < 129:
        caplog.clear()
        given.append(next(tries))
        said += [(now - 100, record.getMessage()) for record in caplog.records]
        now += 0.5
    assert given[:5] == [2, 4, 8, 16, 28]
    assert said == [
        (5, "t/0: bounds: no answer for 5 s: asking again, for at most 25 s more"),
        (10, "t/0: bounds: no answer for 10 s: asking again, for at most 20 s more"),
        (20, "t/0: bounds: no answer for 20 s: asking again, for at most 10 s more"),
    ]
    assert renewed == [], "each was told in its time that it failed"
    now = 130
    with pytest.raises(Timeout, match="t/0: bounds took more than the time given"):
        next(tries)


async def test_a_read_that_fails_is_no_concern_of_an_append_beside_it(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await log.append(Batch.of([b"0"]))

    def unknown(*_: object, **__: object) -> None:
        time.sleep(0.2)
        raise Unavailable("nobody knows", reason="unreachable")

    with monkeypatch.context() as patch:
        patch.setattr("cordwood.log.kafka.offsets.Offsets.bounds_of", unknown)
        reader = log.read()
        assert await log.append(Batch.of([b"1"])) == range(1, 2)
        with pytest.raises(Unavailable, match="nobody knows"):
            await anext(reader)
    del reader
    gc.collect()
    assert caplog.records == []


def test_an_answer_that_comes_as_its_time_is_over_is_one() -> None:
    class JustInTime(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            if timeout is None:
                return super().result()
            self.set_result(5)
            raise TimeoutError

    assert deadline.answer("t/0: bounds", JustInTime(), 1) == 5


def test_after_an_attempt_without_an_answer_a_new_client_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now))
    renewed: list[float] = []
    tries = deadline.attempts("t/0: bounds", now + 17, lambda: renewed.append(now))
    while now < 114:
        now += next(tries)
    assert renewed == [102, 106]


class Lost:
    """What a client does that has no brokers any more: it waits, and says that it got no answer."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name in ("poll", "close"):
            return getattr(self._real, name)
        return self._list_topics if name == "list_topics" else self._unanswered

    def _list_topics(self, *_: object, timeout: float) -> None:
        time.sleep(timeout)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def _unanswered(self, *_: object, request_timeout: float, **__: object) -> "defaultdict[object, Future[Any]]":
        return defaultdict(Future)


async def test_a_client_that_has_lost_all_brokers_is_replaced(
    cw: Client, log: Log, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka forgets the last one that it knows when that one says for a moment that there are none."""
    caplog.set_level(logging.INFO, "cordwood.kafka")
    await log.append(Batch.of([b"0"]))
    admin: Any = admin_of(cluster_of(cw))
    for call in (log.bounds, cw.topics, lambda: cw.topic(topic), lambda: log.trim(before=0)):
        admin.client = Lost(admin.client)
        admin._since = 0.0
        async with asyncio.timeout(15):
            await call()
        assert not isinstance(admin.client, Lost)
    assert "reconnected: a new client asks, since the last one got no answer" in caplog.text


async def test_a_reader_takes_no_client_that_has_lost_all_brokers(cw: Client, log: Log) -> None:
    await log.append(Batch.of([b"0"]))
    assert await values_of(log) == [b"0"]
    consumers: Any = cluster_of(cw).consumers
    for _ in range(100):
        if consumers._idle:
            break
        await asyncio.sleep(0.1)
    lost = [(kind, Lost(consumer)) for kind, consumer in consumers._idle]
    assert lost
    consumers._idle = list(lost)
    async with asyncio.timeout(15):
        assert await values_of(log) == [b"0"]
    assert lost[-1] not in consumers._idle


async def test_a_client_that_is_replaced_ends_nothing_that_was_asked_of_it(
    cw: Client, log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(Batch.of([b"0"]))
    admin = admin_of(cluster_of(cw))
    answer = deadline.answer

    def replaced_meanwhile(what: str, asked: "Future[Any]", seconds: float) -> Any:
        admin._since = 0.0
        admin.renew()
        gc.collect()
        return answer(what, asked, seconds)

    for module in ("offsets", "topics"):
        monkeypatch.setattr(f"cordwood.log.kafka.{module}.answer", replaced_meanwhile)
    for _ in range(5):
        assert await log.bounds() == (0, 1)
        assert (await cw.topic(log.topic)).name == log.topic
        await cw.create_topic(f"{topic}.other")
        await cw.delete_topic(f"{topic}.other")
        await log.trim(before=0)

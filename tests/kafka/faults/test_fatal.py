"""A fatal error of the idempotent producer: it is made anew, and appends in flight are unknown."""

import asyncio
import logging
import threading
from typing import Any

import pytest
from confluent_kafka import Producer

import cordwood
from cordwood import Batch, CordwoodError, Unavailable
from cordwood.testing.kafka import Broker
from tests.support.kafka.engine_internals import cluster_of, senders_of
from tests.support.kafka.fatal_errors import raise_fatal
from tests.support.kafka.waiting import until, values_of
from tests.support.kafka.write_load import Load


class Recorded(Producer):
    """Notes every producer that is made."""

    made: list[Producer]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.made.append(self)


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[Producer]:
    Recorded.made = []
    monkeypatch.setattr("cordwood.log.kafka.producer.Producer", Recorded)
    return Recorded.made


@pytest.mark.slow
async def test_what_was_in_flight_is_unknown_and_the_next_append_works(
    broker: Broker, topic: str, producers: list[Producer]
) -> None:
    async with cordwood.connect(broker.url) as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        await log.append(Batch.of([b"before"]))
        broker.pause()
        flying = [asyncio.ensure_future(log.append(Batch.of([b"flying %d" % number]))) for number in range(3)]
        await asyncio.sleep(0.1)  # on their way, as far as they get
        raise_fatal(producers[-1])
        async with asyncio.timeout(30):
            results = await asyncio.gather(*flying, return_exceptions=True)
        for result in results:
            assert isinstance(result, CordwoodError)
            assert result.outcome == "unknown"
        broker.resume()
        (after,) = await log.append(Batch.of([b"after"]))
        assert len(producers) == 2
        values = await values_of(log)
        assert values[0] == b"before"
        assert values[after] == b"after"
        assert set(values) <= {b"before", b"flying 0", b"flying 1", b"flying 2", b"after"}
        assert len(values) == len(set(values))


async def test_writers_go_on_through_one_fatal_error_after_the_other(
    kafka: Broker, topic: str, producers: list[Producer]
) -> None:
    async with cordwood.connect(f"{kafka.url}?client.id=fatal") as cw:  # whose clients nobody else has made
        await cw.create_topic(topic)
        async with Load(cw.log(topic)) as load:
            for made in range(1, 5):
                await load.acks(200)
                raise_fatal(producers[-1])
                await until(lambda made=made: len(producers) > made)  # type: ignore[misc]
            await load.acks(200)
        await load.check()
        assert len(producers) == 5
        assert {error.outcome for error in load.errors} <= {"unknown"}


class Placeless:
    """The message of a report whose offset got lost, with the answer that told it."""

    def offset(self) -> None:
        return None


@pytest.mark.parametrize("lost", [[b"0"], [b"0", b"1", b"2"], [b"2"]])
async def test_a_record_without_a_known_offset_is_unknown_and_the_next_works(
    kafka: Broker, topic: str, producers: list[Producer], monkeypatch: pytest.MonkeyPatch, lost: list[bytes]
) -> None:
    def produce(self: Producer, name: str, value: bytes, *others: Any) -> None:
        key, partition, report, *rest = others
        told = (lambda error, _: report(error, Placeless())) if value in lost else report
        Producer.produce(self, name, value, key, partition, told, *rest)

    monkeypatch.setattr(Recorded, "produce", produce, raising=False)
    batch = Batch.of([b"0", b"1", b"2"], headers=[[("h", b"")]] * 3)  # with headers they go one by one
    async with cordwood.connect(f"{kafka.url}?client.id=placeless") as cw:
        await cw.create_topic(topic)
        log = cw.log(topic)
        with pytest.raises(Unavailable, match="it is written") as caught:
            await log.append(batch)
        assert caught.value.outcome == "unknown"
        assert await log.append(Batch.of([b"after"])) == range(3, 4)
        assert await values_of(log) == [b"0", b"1", b"2", b"after"]


async def test_a_client_is_not_closed_while_a_topic_is_looked_at_with_it(
    kafka: Broker,
    topic: str,
    producers: list[Producer],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "cordwood.kafka")
    other = f"{topic}.other"
    done: list[str] = []
    looking, go_on = threading.Event(), threading.Event()

    def list_topics(self: Producer, name: str, **named: Any) -> Any:
        if name == other:
            return Producer.list_topics(self, name, **named)
        looking.set()
        go_on.wait(30)
        found = Producer.list_topics(self, name, **named)
        done.append("looked")
        return found

    def close(self: Producer) -> bool:
        done.append("closed")
        return Producer.close(self)

    monkeypatch.setattr(Recorded, "list_topics", list_topics, raising=False)
    monkeypatch.setattr(Recorded, "close", close, raising=False)
    async with cordwood.connect(f"{kafka.url}?client.id=looks") as cw:
        await cw.create_topic(topic)
        await cw.create_topic(other)
        await cw.log(other).append(Batch.of([b"x"]))
        appending = asyncio.ensure_future(cw.log(topic).append(Batch.of([b"x"])))
        await asyncio.to_thread(looking.wait, 30)
        (sender,) = senders_of(cluster_of(cw))
        raise_fatal(producers[-1])
        beside = asyncio.ensure_future(cw.log(other).append(Batch.of([b"y"])))  # has the error noticed
        await until(lambda: sender._handing_over)
        go_on.set()
        await asyncio.gather(appending, beside)
        assert done == ["looked", "closed"]
    assert f"{kafka.url}: connected" in caplog.text
    assert f"{kafka.url}: reconnected: a new client writes" in caplog.text


@pytest.mark.slow
@pytest.mark.processes
async def test_what_was_sent_again_and_then_given_up_may_be_written(
    broker: Broker, topic: str, producers: list[Producer], kills: int
) -> None:
    """The server has written it, and died before its answer: the client's word for it is that it was never sent."""
    async with cordwood.connect(broker.url, timeout=60) as cw:
        await cw.create_topic(topic)
        async with Load(cw.log(topic), writers=32, batch=1) as load:
            for _ in range(max(1, kills // 5)):
                await load.acks(300)
                await asyncio.to_thread(broker.kill)
                raise_fatal(producers[-1])
                await asyncio.to_thread(broker.restart)
            await load.acks(300)
        await load.check()

"""Appending without a loop: in order, with bounded bytes under way, checked before anything is sent."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

import cordwood
from cordwood import Batch, InvalidInput, NotFound, Timeout, TooLarge
from cordwood.log.kafka.appender import UNDER_WAY_BYTES_MAX, Appender, Part
from cordwood.log.kafka.cluster import open_cluster
from cordwood.log.kafka.settings import Settings
from cordwood.testing.kafka import Broker
from cordwood.testing.kafka.broker import NO_SETTINGS
from cordwood.url import KafkaUrl
from tests.support.kafka import bare_client

MIB = 1024 * 1024


@contextmanager
def appender(kafka: Broker, timeout: float = 30, config: Mapping[str, str] = NO_SETTINGS) -> Iterator[Appender]:
    cluster = open_cluster(Settings.of(KafkaUrl((kafka.bootstrap,), config), timeout), timeout)
    try:
        yield Appender(cluster, timeout)
    finally:
        cluster.close(timeout)


def values(kafka: Broker, topic: str, partition: int = 0) -> list[bytes | None]:
    with cordwood.sync.connect(kafka.url) as cw:
        return [value for batch in cw.log(topic, partition).read() for value in batch.values]


def create(kafka: Broker, topic: str, partitions: int = 1) -> None:
    with cordwood.sync.connect(kafka.url) as cw:
        cw.create_topic(topic, partitions=partitions)


def test_appends_of_each_log_keep_their_order_however_many_are_under_way(kafka: Broker, topic: str) -> None:
    create(kafka, topic, partitions=2)
    with appender(kafka) as to:
        for turn in range(60):
            # Those of the second log have headers, and go another way to the client.
            headers = [[("h", b"1")]] * 30
            numbers = [b"%d" % (turn * 30 + n) for n in range(30)]
            to.append(
                [
                    Part(topic, 0, Batch.of([number.ljust(20_000) for number in numbers])),
                    Part(topic, 1, Batch.of(numbers, headers=headers)),
                ]
            )
        to.finish()
        assert [int(value or b"") for value in values(kafka, topic, 0)] == list(range(1800))
        assert [int(value or b"") for value in values(kafka, topic, 1)] == list(range(1800))


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (lambda topic: Part(topic, 1, Batch.of([b"x"])), NotFound, "has the partitions 0 to 0"),
        (lambda topic: Part(f"{topic}-missing", 0, Batch.of([b"x"])), NotFound, "missing"),
        (
            lambda topic: Part(topic, 0, Batch.of([b"x", bytes(3 * MIB)])),
            TooLarge,
            r"record 1 .* 3,145,8\d\d .* 2,097,152",
        ),
        (lambda topic: Part(topic, 0, Batch.of([b"x"], timestamps=[0])), InvalidInput, "record 0 .* timestamp 0 ms"),
        (lambda topic: Part(topic, 0, Batch.of([])), InvalidInput, "the batch is empty"),
    ],
)
def test_all_parts_are_checked_before_the_first_is_sent(
    kafka: Broker,
    topic: str,
    part: Callable[[str], Part],
    error: type[cordwood.CordwoodError],
    message: str,
) -> None:
    create(kafka, topic)
    with appender(kafka) as to:
        with pytest.raises(error, match=message) as caught:
            to.append([Part(topic, 0, Batch.of([b"first"])), part(topic)])
        assert caught.value.outcome == "not_written"
        to.append([Part(topic, 0, Batch.of([b"second"]))])
        to.finish()
    assert values(kafka, topic) == [b"second"]


@pytest.mark.processes
def test_appends_to_a_silent_server_wait_at_the_limit_and_time_out(broker: Broker, topic: str) -> None:
    create(broker, topic)
    with appender(broker, timeout=2) as to:
        to.append([Part(topic, 0, Batch.of([b"before"]))])
        to.finish()
        broker.pause()
        accepted = 0
        with pytest.raises(Timeout) as caught:
            while True:
                to.append([Part(topic, 0, Batch.of([bytes(MIB)]))])
                accepted += 1
        assert caught.value.outcome == "unknown"
        assert 0 < accepted <= UNDER_WAY_BYTES_MAX // MIB
        with pytest.raises(Timeout):
            to.finish()
        broker.resume()


def test_a_batch_over_the_limit_goes_alone(kafka: Broker, topic: str) -> None:
    create(kafka, topic)
    large = Batch.of([bytes(MIB)] * (UNDER_WAY_BYTES_MAX // MIB + 4))
    with appender(kafka) as to:
        for batch in (Batch.of([b"a"]), large, Batch.of([b"b"])):
            to.append([Part(topic, 0, batch)])
        to.finish()
    assert list(map(len, filter(None, values(kafka, topic)))) == [1, *[MIB] * len(large), 1]


def test_a_limit_that_was_changed_is_known_with_the_next_append(kafka: Broker, topic: str) -> None:
    bare_client.create(kafka.bootstrap, topic, settings={"max.message.bytes": "10000"})
    part = Part(topic, 0, Batch.of([bytes(20_000)]))
    with appender(kafka) as to:
        with pytest.raises(TooLarge, match=r"record 0 .* 10,000"):
            to.append([part])
        bare_client.configure(kafka.bootstrap, topic, {"max.message.bytes": "100000"})
        to.append([part])
        to.finish()
        bare_client.configure(kafka.bootstrap, topic, {"max.message.bytes": "10000"})
        with pytest.raises(TooLarge):  # by the server
            to.append([part])
            to.finish()
        with pytest.raises(TooLarge, match=r"record 0 .* 10,000"):
            to.append([part])
    assert values(kafka, topic) == [bytes(20_000)]


def test_a_topic_that_was_deleted_and_made_anew_is_written_at_once(kafka: Broker, topic: str) -> None:
    """Also by a client that has noticed that it was gone, as it does by itself after some minutes; here soon."""
    soon = {"topic.metadata.refresh.interval.ms": "50", "topic.metadata.propagation.max.ms": "1"}
    with appender(kafka, config=soon) as to, cordwood.sync.connect(kafka.url) as cw:
        for _ in range(5):
            cw.create_topic(topic)
            to._cluster.forget(topic)  # as once a minute
            to.append([Part(topic, 0, Batch.of([b"new"]))])
            to.finish()
            assert values(kafka, topic) == [b"new"]
            cw.delete_topic(topic)
            time.sleep(0.1)  # the client looks for itself: there is nothing to wait for

"""What the tests on Kafka share: a server to break, three that replicate, and logs on one that nobody breaks."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

import cordwood
from cordwood import Client, Log
from cordwood.testing.kafka import Broker, Cluster

# Retention and compaction look for old segments as soon as the server runs, and then all the time.
RETENTION_AT_ONCE = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
}


@pytest.fixture(scope="session")
def _breakable() -> Iterator[Broker]:
    with Broker(RETENTION_AT_ONCE) as broker:
        yield broker


@pytest.fixture
def broker(_breakable: Broker) -> Iterator[Broker]:
    """A server that a test may kill, pause or stop; it runs again for the next one."""
    yield _breakable
    _breakable.resume()
    if not _breakable.running:
        _breakable.restart()


@pytest.fixture
def cluster(kafka_cluster: Cluster) -> Iterator[Cluster]:
    """Three servers, whole again after each test."""
    yield kafka_cluster
    kafka_cluster.heal()


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    value: int = request.config.getoption("--kills")
    return value


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic-{secrets.token_hex(6)}"


@pytest.fixture
async def cw(kafka: Broker) -> AsyncIterator[Client]:
    async with cordwood.connect(kafka.url) as cw:
        yield cw


@pytest.fixture
async def log(cw: Client, topic: str) -> Log:
    await cw.create_topic(topic)
    return cw.log(topic)

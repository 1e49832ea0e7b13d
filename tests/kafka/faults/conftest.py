"""What the tests of faults share: a server that they may break, and a topic of each test."""

import secrets
from collections.abc import Iterator

import pytest

from cordwood.testing.kafka import Broker, Cluster

# Retention looks for old segments as soon as the server runs, and then all the time.
RETENTION_AT_ONCE = {"log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "200"}


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
def topic() -> str:
    return f"faults-{secrets.token_hex(6)}"

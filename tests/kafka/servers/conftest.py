"""What the tests of the servers share."""

from collections.abc import Iterator

import pytest

from cordwood.testing.kafka import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A server that tests may stop and kill: the one of the session has other users."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def running(broker: Broker) -> Iterator[Broker]:
    """The same, up again after each test."""
    yield broker
    broker.resume()
    if not broker.running:
        broker.restart()

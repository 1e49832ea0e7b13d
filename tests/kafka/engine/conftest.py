"""What the tests of the engine share."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

import cordwood
from cordwood import Client, Log
from cordwood.testing.kafka import Broker


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"engine-{secrets.token_hex(6)}"


@pytest.fixture
async def cw(kafka: Broker) -> AsyncIterator[Client]:
    async with cordwood.connect(kafka.url) as cw:
        yield cw


@pytest.fixture
async def log(cw: Client, topic: str) -> Log:
    await cw.create_topic(topic)
    return cw.log(topic)


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """A server that tests may stop and kill: the one of the session has other users."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(own_broker: Broker) -> Iterator[Broker]:
    """The same, up again after each test."""
    yield own_broker
    own_broker.resume()
    if not own_broker.running:
        own_broker.restart()

"""What the tests of the write-ahead log share: every test runs in a folder and on Kafka, unless it names an engine by
`@pytest.mark.parametrize("engine", ["embedded"])`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import cordwood
from cordwood import Client
from cordwood.sync import Client as SyncClient
from cordwood.testing.kafka import Broker


@pytest.fixture(params=["embedded", "kafka"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def server(kafka: Broker) -> Iterator[SyncClient]:
    """A connection that lasts: the clients that all others share with it are made once, which takes a second."""
    with cordwood.sync.connect(f"{kafka.url}?client.id=wal") as cw:  # not those that tests of the clients count
        yield cw


@pytest.fixture
def url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a test has its logs to itself: a fresh folder, or a server whose new topics go with the test."""
    if engine == "embedded":
        yield f"file:{tmp_path / 'data'}"
        return
    server: SyncClient = request.getfixturevalue("server")
    before = set(server.topics())
    yield server.url
    for topic in set(server.topics()) - before:
        server.delete_topic(topic)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A life takes a second or two; on a busy machine it may be ten."""
    seconds = 120 + 20 * config.getoption("--kills")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and "kills" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(seconds))


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    value: int = request.config.getoption("--kills")
    return value


@pytest.fixture
async def cw(url: str) -> AsyncIterator[Client]:
    async with cordwood.connect(url) as client:
        yield client

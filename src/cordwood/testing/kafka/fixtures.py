"""pytest fixtures: a Kafka server, and a cluster of three, each started once for all tests that use it.

    # conftest.py, at the top of the tests
    pytest_plugins = ["cordwood.testing.kafka.fixtures"]

If a server cannot be fetched or started, the tests that use it fail; none is skipped.
"""

from collections.abc import Iterator

import pytest

from .broker import Broker
from .cluster import Cluster
from .prepare import prepare


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """One Kafka server, for all tests.

    ```python
    async def test_events(kafka: Broker) -> None:
        async with cordwood.connect(kafka.url) as cw: ...
    ```
    """
    prepare()
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[Cluster]:
    """Three Kafka servers, for all tests; a test that stops or kills a server calls `heal()` at its end."""
    prepare()
    with Cluster() as cluster:
        yield cluster

"""pytest fixtures: a Cassandra node, and a cluster of three, each started once for all tests that use it.

    # conftest.py, at the top of the tests
    pytest_plugins = ["cordwood.testing.cassandra.fixtures"]

If a node cannot be fetched or started, the tests that use it fail; none is skipped.
"""

from collections.abc import Iterator

import pytest

from .cluster import Cluster
from .node import Node
from .prepare import prepare


@pytest.fixture(scope="session")
def cassandra() -> Iterator[Node]:
    """One Cassandra node, for all tests.

    ```python
    async def test_events(cassandra: Node) -> None:
        async with await open_store(f"cassandra://{cassandra.address}/journal") as store: ...
    ```
    """
    prepare()
    with Node() as node:
        yield node


@pytest.fixture(scope="session")
def cassandra_cluster() -> Iterator[Cluster]:
    """Three Cassandra nodes, for all tests; a test that stops or kills a node calls `heal()` at its end."""
    prepare()
    with Cluster() as cluster:
        yield cluster

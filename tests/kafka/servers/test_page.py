"""docs/testing.md: the tests that it shows pass."""

from typing import Any

import pytest

from cordwood.testing.kafka import Broker, Cluster
from tests.support.docs.pages import blocks, page


@pytest.mark.slow
@pytest.mark.processes
async def test_the_tests_of_the_page_pass(broker: Broker, kafka_cluster: Cluster) -> None:
    names: dict[str, Any] = {}
    (block,) = [block for block in blocks(page("docs/testing.md"), "python") if "kafka_cluster" in block]
    exec(compile(block, "docs/testing.md", "exec"), names)
    await names["test_what_was_acked_is_there_after_a_crash"](broker)
    await names["test_another_server_takes_over"](kafka_cluster)

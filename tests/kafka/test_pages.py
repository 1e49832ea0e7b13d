"""docs/kafka.md and the Kafka part of docs/testing.md: their code runs and does what they say."""

import asyncio
import re
from typing import Any

import pytest

from cordwood.log.kafka.settings import _FIXED
from cordwood.testing.kafka import Broker, Cluster
from tests.docs.pages import blocks, page, rows
from tests.docs.test_examples import promised, run_page

PAGE = page("docs/kafka.md")


def test_the_code_runs_and_prints_what_the_page_says(kafka: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    code = [block.replace("localhost:9092", kafka.bootstrap) for block in blocks(PAGE, "python")]
    asyncio.run(run_page(code))
    expected = [line for block in code for line in promised(block)]
    assert capsys.readouterr().out.splitlines() == expected
    assert len(expected) == sum(block.count("print(") for block in code)


def test_the_table_has_every_setting_that_cannot_be_given() -> None:
    shown = {name: row[1] for row in rows(PAGE) if row[1] in _FIXED.values() for name in re.split(", ", row[0])}
    assert shown == {**_FIXED, "bootstrap.servers": _FIXED["metadata.broker.list"]}


@pytest.mark.slow
@pytest.mark.processes
async def test_the_tests_of_the_other_page_pass(kafka: Broker, kafka_cluster: Cluster) -> None:
    names: dict[str, Any] = {}
    (block,) = [block for block in blocks(page("docs/testing.md"), "python") if "kafka_cluster" in block]
    exec(compile(block, "docs/testing.md", "exec"), names)
    await names["test_what_was_acked_is_there_after_a_crash"](kafka)
    await names["test_another_server_takes_over"](kafka_cluster)

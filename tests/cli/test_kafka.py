"""The command on Kafka."""

import json
import secrets

import pytest

from cordwood.testing.kafka import Broker
from tests.cli.conftest import Command


@pytest.fixture
def topic(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CORDWOOD_URL", kafka.url)
    return f"cli-{secrets.token_hex(6)}"


def test_topics_are_made_listed_and_deleted(run: Command, topic: str) -> None:
    created = json.loads(run("topics", "create", topic, "--partitions", "3", "--retention", "7d", "--json").out)
    assert (created["topic"], created["partitions"], created["retention_seconds"]) == (topic, 3, 7 * 86400.0)
    listed = run("topics", "--prefix", topic).out
    assert topic in listed
    assert "in memory" in listed
    assert run("topics", "delete", topic, "--yes").code == 0
    assert topic not in run("topics", "--prefix", topic).out.splitlines()


def test_records_are_appended_read_and_trimmed(run: Command, topic: str) -> None:
    run("topics", "create", topic)
    assert run("log", "append", topic, "a", "b", "c").code == 0
    assert run("log", "append", topic, stdin=b"d\ne\n").code == 0
    read = [json.loads(line) for line in run("log", "read", topic, "--json").out.splitlines()]
    assert [(record["offset"], record["value"]) for record in read] == list(enumerate("abcde"))
    assert run("log", "trim", topic, "--before", "2").code == 0
    bounds = json.loads(run("log", "bounds", topic, "--json").out)
    assert (bounds["start"], bounds["stop"]) == (2, 5)
    ran = run("log", "read", topic, "--start", "0")
    assert ran.code == 1
    assert "trimmed before 2" in ran.err


def test_a_missing_topic_is_said(run: Command, topic: str) -> None:
    ran = run("log", "read", topic)
    assert (ran.code, ran.out) == (1, "")
    assert topic in ran.err

"""The logs and stores that the tests of journals run on."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from cordwood.testing.kafka import Broker
from tests.support.journal.journals import Journals, Kind
from tests.support.store.keyspaces import Keyspaces

KINDS = ("folder and SQLite", "Kafka and SQLite")
ON_CASSANDRA = (*KINDS, "folder and Cassandra")
"""For tests of what a store must do. The log matters less there: `Kafka and Cassandra` runs those that name it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test runs on each log with SQLite, unless its nearest mark `kinds` says otherwise."""
    if "journals" in metafunc.fixturenames:
        marks = [mark.args for mark in metafunc.definition.iter_markers("kinds")]
        metafunc.parametrize("journals", marks[0] if marks else KINDS, indirect=True)


@pytest.fixture
async def journals(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journals]:
    """Makes journals, on one log and one store."""
    log_url = f"file:{tmp_path / 'log'}"
    if request.param.startswith("Kafka"):
        kafka: Broker = request.getfixturevalue("kafka")
        log_url = kafka.url
    if request.param.endswith("SQLite"):
        numbers = count(2)
        path = tmp_path / "store.db"
        kind = Kind(request.param, log_url, f"sqlite:{path}", lambda: f"sqlite:{tmp_path}/store-{next(numbers)}.db")
    else:
        keyspaces: Keyspaces = request.getfixturevalue("clean_keyspaces")
        kind = Kind(request.param, log_url, keyspaces.url, keyspaces.other_url, keyspaces.link)
    journals = Journals(kind)
    yield journals
    await journals.close()
    if request.param.startswith("Kafka"):
        await journals.delete_topics()

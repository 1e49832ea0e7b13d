"""The logs and stores that the tests of journals run on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cordwood.testing.kafka import Broker
from tests.support.journal.journals import Journals, Kind

KINDS = ("folder and SQLite", "Kafka and SQLite")


@pytest.fixture(params=KINDS)
async def journals(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journals]:
    """Makes journals: every test of this folder runs on each log and each store."""
    log_url = f"file:{tmp_path / 'log'}"
    if request.param.startswith("Kafka"):
        kafka: Broker = request.getfixturevalue("kafka")
        log_url = kafka.url
    journals = Journals(Kind(request.param, log_url, f"sqlite:{tmp_path / 'store.db'}"))
    yield journals
    await journals.close()
    if request.param.startswith("Kafka"):
        await journals.delete_topics()

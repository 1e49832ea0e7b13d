"""The logs and stores that the tests of journals run on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.journal.journals import Journals, Kind

KINDS = ("folder and SQLite",)


@pytest.fixture(params=KINDS)
async def journals(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journals]:
    """Makes journals: every test of this folder runs on each log and each store."""
    kind = Kind(request.param, f"file:{tmp_path / 'log'}", f"sqlite:{tmp_path / 'store.db'}")
    journals = Journals(kind)
    yield journals
    await journals.close()

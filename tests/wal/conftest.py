"""What the tests of the write-ahead log share: a connection to a fresh folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import cordwood
from cordwood import Client


@pytest.fixture
async def cw(tmp_path: Path) -> AsyncIterator[Client]:
    async with cordwood.connect(tmp_path / "data") as client:
        yield client

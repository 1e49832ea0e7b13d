"""A folder and its writer, beside Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def cw(folder: Path) -> Iterator[cordwood.sync.Client]:
    """The writer, open beside Spark for the whole test."""
    with cordwood.sync.connect(folder) as client:
        yield client

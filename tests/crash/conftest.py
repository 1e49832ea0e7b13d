"""What the crash tests share: how much they try, and that the engine never logs a defect."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> int:
    value: int = request.config.getoption("--seeds")
    return value


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    value: int = request.config.getoption("--kills")
    return value


@pytest.fixture
def flips(request: pytest.FixtureRequest) -> int:
    value: int = request.config.getoption("--flips")
    return value


@pytest.fixture(autouse=True)
def no_defects(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The engine logs what it did not expect; here it is to expect everything."""
    yield
    logged = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not logged, "\n".join(record.getMessage() for record in logged)

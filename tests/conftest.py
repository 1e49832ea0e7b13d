"""What all tests share."""

import signal

import pytest
from hypothesis import settings

from tests.support.packaging.interpreters import describe_interpreters

# The first one must be imported before anything of cordwood is.
pytest_plugins = [
    "tests.support.lock_order",
    "cordwood.testing.kafka.fixtures",
    "cordwood.testing.cassandra.fixtures",
    "tests.support.store.keyspaces",
    "tests.support.surroundings",
    "tests.support.golden",
    "tests.support.spark.session",
]

# A slow or busy machine is no failure.
settings.register_profile("cordwood", deadline=None)
settings.load_profile("cordwood")


def pytest_configure() -> None:
    # A shell starts what it puts in the background with interrupts ignored, and the processes that tests interrupt
    # would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cordwood", "how much is tried")
    group.addoption("--kills", type=int, default=15, help="how often the kill tests kill a writing process (15)")
    group.addoption("--races", type=int, default=2000, help="how many appends of eight writers race (2000)")
    group.addoption("--seeds", type=int, default=1, help="power cuts by chance at each operation of a history (1)")
    group.addoption("--flips", type=int, default=8, help="flip one of so many bits of a folder; 1 flips all (8)")


def pytest_report_header() -> str:
    return describe_interpreters()

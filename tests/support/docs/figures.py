"""A pytest plugin that counts what tests try. Only `python -m tests.support.docs.reliability` loads it."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

FILE_VARIABLE = "CORDWOOD_FIGURES"

_tried: Counter[str] = Counter()
_by_file: dict[str, Counter[str]] = {}


def pytest_collection_finish() -> None:
    """Wrap the functions that do harm; by then each module that has one is imported."""
    from cordwood.simulation.faults import Faults
    from cordwood.simulation.folder import SimulatedFolder
    from cordwood.testing.kafka import Broker
    from tests.support.crash.programs import Output

    _count(SimulatedFolder, "power_cut", "power cuts")
    _count(SimulatedFolder, "killed", "kills")
    _count(Faults, "stop", "failed operations")
    _count(Output, "kill", "kills of processes")
    _count(Broker, "kill", "kills of brokers")
    _count(Broker, "pause", "paused brokers")
    if media := sys.modules.get("tests.crash.test_media"):
        _count(media, "is_right", "damaged folders")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = _tried.copy()
    done = yield
    _of(item.nodeid).update(_tried - before)
    return done


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _of(report.nodeid)["failed"] += 1
    elif report.when == "call":
        _of(report.nodeid)["passed"] += 1


def pytest_sessionfinish() -> None:
    Path(os.environ[FILE_VARIABLE]).write_text(json.dumps(_by_file), encoding="utf-8")


def _of(nodeid: str) -> Counter[str]:
    return _by_file.setdefault(nodeid.partition("::")[0], Counter())


def _count(owner: Any, name: str, what: str) -> None:
    function: Callable[..., Any] = getattr(owner, name)

    def counted(*args: Any, **options: Any) -> Any:
        _tried[what] += 1
        return function(*args, **options)

    setattr(owner, name, counted)

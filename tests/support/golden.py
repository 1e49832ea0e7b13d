"""The golden files of the Scala library kafka-journal, which are not part of this repository.

The environment variable `CORDWOOD_GOLDEN` names their folder. Without it, the tests that use the fixture `golden` are
deselected, and the summary says so.
"""

import os
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "golden" / "kafka-journal"
_deselected = pytest.StashKey[int]()


def golden_folder() -> Path | None:
    """The folder of the golden files; None if there is none."""
    named = os.environ.get("CORDWOOD_GOLDEN")
    if named:
        if not Path(named).is_dir():
            raise pytest.UsageError(f"CORDWOOD_GOLDEN is {named!r}, which is not a folder")
        return Path(named)
    return _BESIDE if _BESIDE.is_dir() else None


def golden_files(folder: Path) -> list[str]:
    """All files of the folder, by their paths in it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="session")
def golden() -> Path:
    folder = golden_folder()
    assert folder is not None, "tests that use the golden files are deselected without them"
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "golden_file" in metafunc.fixturenames:
        folder = golden_folder()
        metafunc.parametrize("golden_file", ["no files"] if folder is None else golden_files(folder))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if golden_folder() is not None:
        return
    without = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    if without:
        items[:] = [item for item in items if item not in without]
        config.hook.pytest_deselected(items=without)
        config.stash[_deselected] = len(without)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A worker of pytest-xdist collects, but only the main process prints a summary.
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["golden_deselected"] = session.config.stash.get(_deselected, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    count = getattr(node, "workeroutput", {}).get("golden_deselected", 0)
    node.config.stash[_deselected] = max(count, node.config.stash.get(_deselected, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = config.stash.get(_deselected, 0)
    if count:
        terminalreporter.write_line(
            f"golden files: {count} deselected, because CORDWOOD_GOLDEN names no folder with those of kafka-journal"
        )

"""Long work shows how far it has come, on a terminal; where its output goes to the terminal, that is enough."""

import io
import sys
from pathlib import Path

import pytest

from cordwood.cli import main, progress
from tests.cli.conftest import Command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def long_work(run: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three records in a topic, a region and a journal, three lines to read, and work that is long at once."""
    run("topics", "create", "events")
    run("log", "append", "events", "a", "b", "c")
    run("wal", "write", "metrics", "7", "42", "a", "b", "c")
    run("journal", "append", "orders", "order-1", "1", "2", "3")
    (tmp_path / "lines").write_bytes(b"a\nb\nc\n")
    monkeypatch.setattr(progress, "_EVERY_SECONDS", 0)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("log read events --json", "read: 3 records, 3 B"),
        ("log append events --json", "appended: 3 records, 3 B"),
        ("wal write metrics 7 42 --json", "written: 3 records, 3 B"),
        ("wal read metrics 7 42 --json", "read: 3 records, 3 B"),
        ("wal replay metrics 7", "read: 3 records, 3 B"),
        ("journal append orders order-1 --kind text --json", "appended: 3 events, 3 B"),
        ("journal read orders order-1 --json", "read: 3 events, 3 B"),
        ("journal ids orders", "read: 1 events"),
    ],
)
def test_it_is_shown_and_wiped_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with (tmp_path / "lines").open() as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        assert main(command.split()) == 0
    assert f"\r{shown}" in terminal.getvalue()
    assert terminal.getvalue().endswith(" \r")


@pytest.mark.parametrize("command", ["log read events", "wal read metrics 7 42", "wal replay metrics 7"])
def test_where_the_records_are_seen_they_are_the_progress(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(sys, "stderr", errors := Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(command.split()) == 0
    assert errors.getvalue() == ""

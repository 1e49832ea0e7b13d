"""The INFO lines that an operator of a folder reads."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood
from cordwood import Batch


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "cordwood"):
        yield


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "cordwood.folder"]


def test_a_folder_says_that_it_is_opened_and_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with cordwood.sync.connect(tmp_path) as cw:
        cw.create_topic("events")
    with cordwood.sync.connect(tmp_path):
        pass
    first, closed, second, closed_again = lines(caplog)
    assert first.startswith(f"{tmp_path}: opened for writing: 0 topics, 0.")
    assert second.startswith(f"{tmp_path}: opened for writing: 1 topics, 0.")
    assert closed == closed_again == f"{tmp_path}: closed"


@pytest.mark.parametrize("torn", [0, 24])
def test_a_log_says_what_a_crash_left_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture, torn: int) -> None:
    with cordwood.sync.connect(tmp_path / "data") as cw:
        cw.create_topic("events")
        cw.log("events").append(Batch.of([b"first", b"second"]))
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    plog = max((tmp_path / "crashed" / "plogs").iterdir(), key=lambda path: path.stat().st_size)
    data = plog.read_bytes()
    end = len(data.rstrip(b"\0"))
    end += -end % 8
    plog.write_bytes(data[:end] + b"\1" * torn + data[end + torn :])
    caplog.clear()
    with cordwood.sync.connect(tmp_path / "crashed") as cw:
        assert cw.log("events").bounds() == (0, 2)
    assert f"events/0: recovered after a crash: continues at offset 2; {torn} bytes of a torn write truncated" in lines(
        caplog
    )


def test_a_log_that_was_closed_is_not_recovered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with cordwood.sync.connect(tmp_path) as cw:
            cw.create_topic("events", exist_ok=True)
            cw.log("events").append(Batch.of([b"value"]))
    assert not [line for line in lines(caplog) if "recovered" in line]

"""A decided commit that cannot be finished holds up appends, and nothing else."""

import threading
from pathlib import Path

import pytest

import cordwood
from cordwood.errors import Unavailable
from cordwood.log.native.folder.staged import StagedCommits
from cordwood.log.native.folder.writer import FolderWriter


def test_metadata_is_retried_while_a_commit_waits_for_its_acks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its acks may wait for the metadata, and that for the space that a deleted topic gives back."""
    waiting, may_end, retried = threading.Event(), threading.Event(), threading.Event()
    tries: list[int] = []

    def finish_decided(commits: StagedCommits) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise Unavailable("no room", reason="full")
        waiting.set()
        assert may_end.wait(30)

    def catch_up(writer: FolderWriter) -> None:
        if waiting.is_set():
            retried.set()

    monkeypatch.setattr(StagedCommits, "finish_decided", finish_decided)
    monkeypatch.setattr(FolderWriter, "catch_up", catch_up)
    with cordwood.sync.connect(tmp_path):
        assert waiting.wait(30)
        assert retried.wait(10)
        may_end.set()
    assert tries[:2] == [0, 1]

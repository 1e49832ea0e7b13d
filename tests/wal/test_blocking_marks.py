"""Marks, snapshots and cleaning through the blocking twin."""

import threading
from pathlib import Path

import pytest

from cordwood import sync
from tests.support.folder.scripts import program


def test_marks_drops_and_cleaning_work_without_an_event_loop(tmp_path: Path) -> None:
    with sync.connect(tmp_path / "data") as cw, cw.wal("metrics").region(7) as region:
        region.write_many({42: [b"a", b"b"], 43: [b"c"]})
        region.mark_deleted(42, through=1)
        region.drop_table(43)
        region.snapshot()
        region.clean()
        assert [list(entries.sequences) for entries in region.replay()] == [[2]]
        assert list(region.tables()) == [42]
        stats = region.stats()
        assert (stats.held_by, stats.trimmed_to) == (42, stats.oldest_offset)


def test_a_callback_runs_on_a_thread_and_uses_the_region_there(tmp_path: Path) -> None:
    asked: list[list[int]] = []
    done = threading.Event()

    def flush(region: sync.Region, tables: list[int]) -> None:
        asked.append(tables)
        for table in tables:
            region.mark_deleted(table, through=region.tables()[table].next_sequence - 1)
        done.set()

    with sync.connect(tmp_path / "data") as cw:
        wal = cw.wal("metrics", clean_every=0.01, region_bytes_max=100, on_flush_needed=flush)
        with wal.region(7) as region:
            region.write(42, [b"x" * 1000])
            assert done.wait(60)
            assert list(region.replay()) == []
    assert asked[0] == [42]


@pytest.mark.parametrize("raised", [StopIteration, SystemExit])
def test_a_callback_that_raises_is_called_again_and_the_region_works(
    tmp_path: Path, raised: type[BaseException]
) -> None:
    asked_again = threading.Event()
    failures = []

    def flush(region: sync.Region, tables: list[int]) -> None:
        failures.append(region.stats().failure)
        if len(failures) > 1:
            asked_again.set()
        raise raised("of its own")

    with sync.connect(tmp_path / "data") as cw:
        wal = cw.wal("metrics", clean_every=0.01, region_bytes_max=100, on_flush_needed=flush)
        with wal.region(7) as region:
            region.write(42, [b"x" * 1000])
            assert asked_again.wait(30)
            assert f"flush raised {raised.__name__}" in str(failures[1])
            assert region.write(42, [b"y"]) == range(2, 3)


@pytest.mark.processes
def test_a_program_that_ends_lets_a_flush_finish(tmp_path: Path) -> None:
    script = """
import threading, time
begun = threading.Event()
def flush(region, tables):
    begun.set()
    time.sleep(0.5)  # the main thread ends
    say("flushed", tables)
cw = cordwood.sync.connect(url)
region = cw.wal("metrics", clean_every=0.01, region_bytes_max=10, on_flush_needed=flush).region(7)
region.write(42, [bytes(5000)])
assert begun.wait(30)
"""
    with program(script, tmp_path / "data") as ending:
        assert ending.says() == "flushed [42]"
        ending.process.wait(30)

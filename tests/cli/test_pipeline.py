"""`cordwood pipeline`: what it replicates and shows, and that it says in one line why it cannot."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cordwood
from cordwood import Batch, Conflict, CordwoodError, Event, Timeout, Unavailable
from cordwood.cli.pipeline.replicating import run_again_and_again
from tests.cli.conftest import Command, Start
from tests.support.pipeline.replicating import behind, rows, wait_for

TOPIC = "orders"


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def orders(folder: Path) -> None:
    """Three events that the store does not have, and a record that cannot be decoded."""
    with cordwood.sync.connect(folder) as cw:
        with cw.journal(TOPIC, replicate=False, partitions=2) as journal:
            for number in range(3):
                journal.append("order-1", [Event.json(number)])
        partition = max(range(2), key=lambda number: cw.log(TOPIC, number).bounds()[1])
        cw.log(TOPIC, partition).append(Batch.of([b""], keys=[b"bad"], headers=[[("journal.action", b"{")]]))


def test_catch_up_lag_and_dead_letters(spark: SparkSession, run: Command, orders: None, folder: Path) -> None:
    before = lines(run("pipeline", "lag", TOPIC, "--json").out)
    assert sum(row["records"] for row in before) == 4
    assert before[0].keys() == {"topic", "partition", "replicated", "end", "records", "seconds"}
    ran = run("pipeline", "catch-up", TOPIC)
    assert ran.code == 0, ran.err
    assert ran.out.split()[:5] == ["RECORDS", "EVENTS", "DEAD", "LETTERS", "SECONDS"]
    assert ran.out.split()[5:8] == ["4", "3", "1"]
    (again,) = lines(run("pipeline", "catch-up", "--pattern", "ord.*", "--json").out)
    assert (again["records"], again["events"], again["dead_letters"]) == (0, 0, 0)
    ran = run("pipeline", "lag", TOPIC)
    assert ran.out.splitlines()[0].split() == ["TOPIC", "PARTITION", "REPLICATED", "END", "RECORDS", "SECONDS"]
    assert [line.split()[-2:] for line in ran.out.splitlines()[1:]] == [["0", "0.0"]] * 2
    (letter,) = lines(run("pipeline", "dead-letters", TOPIC, "--json").out)
    assert (letter["key"], letter["offset"]) == ("bad", 3)
    assert "bad" in run("pipeline", "dead-letters", TOPIC).out


@pytest.mark.processes
@pytest.mark.slow
def test_replicate_runs_until_it_is_interrupted(start: Start, orders: None, folder: Path) -> None:
    store = f"sqlite:{folder / 'store.db'}"
    process = start("pipeline", "replicate", TOPIC, "--master", "local[1]", "--json")
    wait_for(lambda: (folder / "store.db").exists() and behind(folder, store) == 0, "it does not catch up")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert len([row for row in rows(store) if row.startswith("journal")]) == 3
    assert all(line.keys() == {"records", "lag", "batches", "failures"} for line in lines(out.decode()))


def test_replicate_ends_after_an_error_that_does_not_pass(
    spark: SparkSession, run: Command, orders: None, folder: Path
) -> None:
    assert run("pipeline", "catch-up", TOPIC).code == 0
    with cordwood.sync.connect(folder) as cw:
        cw.delete_topic(TOPIC)
        cw.create_topic(TOPIC, partitions=2)
    ran = run("pipeline", "replicate", TOPIC)
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith(f"cordwood: topic {TOPIC!r} is bound to ")


def test_it_starts_again_later_and_later_and_not_after_a_conflict(capsys: pytest.CaptureFixture[str]) -> None:
    pauses: list[float] = []
    now = 0.0

    def run_all(errors: Sequence[tuple[float, CordwoodError]]) -> None:
        left = list(errors)

        def once() -> CordwoodError:
            nonlocal now
            seconds, error = left.pop(0)
            now += seconds
            return error

        run_again_and_again(once, pauses.append, lambda: now)

    away = Unavailable("the store is away", reason="unreachable")
    with pytest.raises(Conflict):
        run_all([*[(1.0, away)] * 11, (61.0, Timeout("late")), (1.0, Conflict("made anew"))])
    assert pauses == [*(0.1 * 2**n for n in range(10)), 60.0, 0.1]
    assert capsys.readouterr().err.splitlines()[1] == "cordwood: the store is away; it starts again in 0.2 s"
    with pytest.raises(Unavailable):
        run_all([(1.0, Unavailable("no store", reason="unsupported"))])


def test_replay_shows_entries_and_writes_parquet(
    spark: SparkSession, run: Command, folder: Path, tmp_path: Path
) -> None:
    with cordwood.sync.connect(folder) as cw, cw.wal("metrics").region(7) as region:
        region.write(42, [b"first", b"second"])
        region.write(43, [b"other"])
    ran = run("pipeline", "replay", "metrics", "7", "--limit", "2")
    assert ran.out.split() == [
        "TABLE",
        "SEQUENCE",
        "OFFSET",
        "PAYLOAD",
        "42",
        "1",
        "1",
        "first",
        "42",
        "2",
        "1",
        "second",
    ]
    (entry,) = lines(run("pipeline", "replay", "metrics", "7", "--table", "43", "--json").out)
    assert (entry["table"], entry["sequence"], entry["payload"]) == (43, 1, "other")
    lake = tmp_path / "lake"
    assert run("pipeline", "replay", "metrics", "7", "--to", str(lake), "--unordered").out == (
        f"wrote 3 entries to {lake}\n"
    )
    assert {path.name for path in lake.iterdir() if path.is_dir()} == {"table=42", "table=43"}
    ran = run("pipeline", "replay", "metrics", "7", "--to", str(lake))
    assert (ran.code, ran.err) == (2, f"cordwood: --to {lake} exists: name a new folder\n")


def test_archive_and_copy(spark: SparkSession, run: Command, orders: None, folder: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (report,) = lines(run("pipeline", "archive", TOPIC, str(lake), "--json").out)
    assert report["records"] == 4
    assert sum(stop - start for start, stop in report["ranges"].values()) == 4
    ran = run("pipeline", "archive", TOPIC, str(lake))
    assert (ran.code, ran.out) == (0, f"{lake} has every record of {TOPIC} already\n")
    ran = run("pipeline", "copy", TOPIC, f"file:{tmp_path}/other", "copied", "--partitions", "3")
    assert (ran.code, ran.out) == (0, "copied 4 records to copied, which has 3 partitions\n")
    ran = run("pipeline", "copy", TOPIC, f"file:{tmp_path}/other", "copied")
    assert (ran.code, "exists" in ran.err.splitlines()[-1]) == (1, True)
    assert run("pipeline", "copy", TOPIC, "nowhere", "copied").code == 2


def test_audit_and_purge_expired(spark: SparkSession, run: Command, orders: None, folder: Path) -> None:
    assert run("pipeline", "catch-up", TOPIC).code == 0
    ran = run("pipeline", "audit", TOPIC, "--json")
    assert [(row["severity"], row["what"], row["key"]) for row in lines(ran.out)] == [("error", "closed key", "bad")]
    assert ran.code == 1
    with cordwood.sync.connect(folder) as cw, cw.journal(TOPIC, partitions=2) as journal:
        (letter,) = journal.dead_letters()
        journal.skip(partition=letter.partition, offset=letter.offset)
        journal.append("order-2", [Event.json(1)], expire_after=timedelta(0))
        journal.catch_up()
    ran = run("pipeline", "audit", TOPIC)
    assert ran.code == 0
    assert ran.out.splitlines()[0].split() == ["SEVERITY", "WHAT", "PLACE", "KEY", "NUMBERS", "FIXABLE"]
    (counts,) = lines(run("pipeline", "purge-expired", TOPIC, "--json").out)
    assert counts == {"purged": 0, "refused": 0, "failed": 0, "errors": {}}
    ran = run("pipeline", "purge-expired", TOPIC, "--on", "2999-01-01")
    assert (ran.code, "the last day that is over" in ran.err) == (2, True)
    assert "is no day" in run("pipeline", "purge-expired", TOPIC, "--on", "soon").err


def test_audit_of_a_region(spark: SparkSession, run: Command, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw, cw.wal("metrics").region(7) as region:
        region.write(42, [b"first"])
    ran = run("pipeline", "audit", "metrics", "--region", "7", "--json")
    assert (ran.code, [row["what"] for row in lines(ran.out)]) == (0, ["holds the region back"])


def test_the_script_is_a_program(run: Command) -> None:
    path = run("pipeline", "script").out.strip()
    ran = subprocess.run([sys.executable, path, "script", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == {"script": path}


def test_bad_input_is_told_before_spark_starts(run: Command, orders: None, tmp_path: Path) -> None:
    ran = run("pipeline", "catch-up")
    assert (ran.code, ran.err) == (2, "cordwood: name topics, or give --pattern\n")
    assert run("pipeline", "lag", TOPIC, "--pattern", "x").code == 2
    ran = run("pipeline", "catch-up", TOPIC, "--url", f"file:{tmp_path / 'none'}")
    assert (ran.code, ran.err) == (1, f"cordwood: {tmp_path / 'none'} does not exist: check --url\n")
    assert run("pipeline", "catch-up", TOPIC, "--store", "store.db").code == 2
    assert run("pipeline", "catch-up", TOPIC, "--max-dead-letters", "0").code == 2
    ran = run("pipeline", "catch-up", TOPIC, "--master", "local[1]", "--remote", "sc://127.0.0.1")
    assert (ran.code, ran.err) == (2, "cordwood: --master and --remote exclude each other: name one\n")


@pytest.mark.processes
def test_without_java_or_the_extra_it_says_so_in_one_line(orders: None, folder: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": "", "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "cordwood", "pipeline", "catch-up", TOPIC]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.startswith("cordwood: Spark needs Java, and there is none: install Java 17")
    assert len(ran.stderr.splitlines()) == 1
    hide = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda name: name != 'pyspark' and find(name)"
    code = f"{hide} or None\nfrom cordwood.cli import main\nraise SystemExit(main(['pipeline', 'catch-up', {TOPIC!r}]))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        1,
        "cordwood: Spark needs pyspark, not installed here: pip install 'cordwood[spark]'\n",
    )

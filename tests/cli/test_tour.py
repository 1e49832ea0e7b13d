import asyncio
import json
import os
import signal
import sys
import time
import types
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cordwood.cli import tour
from cordwood.cli.tour import arrow, spark, spark_process
from cordwood.cli.tour.stage import Facts, Stage
from cordwood.errors import CordwoodError
from tests.cli.conftest import Command, Start, children_of, is_running

Play = Callable[[Callable[[Stage], Awaitable[Facts]]], None]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the tour's folder, so that a test sees its leftovers."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tour, "_fresh_folder", lambda: _made(path / "tour"))
    return path


def _made(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Make the tour one of a single chapter."""

    def play(run: Callable[[Stage], Awaitable[Facts]]) -> None:
        module = types.ModuleType("cordwood.cli.tour.trial")
        vars(module).update(TITLE="A trial", run=run)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(tour, "CHAPTERS", ("trial",))

    return play


@pytest.mark.processes
@pytest.mark.timeout(300)  # Spark starts in it, which takes its time on a busy machine
def test_the_whole_tour(start: Start, folder: Path) -> None:
    process = start("tour", "--json")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    chapters = {chapter["name"]: chapter for chapter in map(json.loads, out.splitlines())}
    assert tuple(chapters) == tour.CHAPTERS
    assert [chapter for chapter in chapters.values() if chapter["status"] != "done"] == []
    facts = {name: chapter["facts"] for name, chapter in chapters.items()}
    assert facts["crash"]["acked_lost"] == facts["crash"]["duplicates"] == 0
    assert facts["crash"]["found_after"] >= facts["crash"]["acked_before"] > 0
    assert facts["writers"]["appends_per_second"] > facts["writers"]["appends_per_second_alone"] > 0
    assert facts["arrow"]["rows"] == facts["columns"]["records"] > 0
    assert facts["spark"]["rows"] == facts["spark"]["streamed"] == facts["columns"]["records"]
    assert facts["spark"]["streamed_again"] == 0
    assert facts["wal"]["acked_lost"] == 0
    assert facts["wal"]["recovered"] >= facts["wal"]["acked_before"] > 0
    assert facts["wal"]["bytes_after"] < facts["wal"]["bytes_before"]
    assert facts["journal"]["acked_lost"] == 0
    assert facts["journal"]["found_after"] >= facts["journal"]["acked_before"] > 0
    assert (facts["journal"]["conflicts"], facts["journal"]["first_after_purge"]) == (7, 1)
    pipeline = facts["pipeline"]
    assert pipeline["lag_before"] == pipeline["caught_up"] == 400
    assert (pipeline["lag_after"], pipeline["entries"], pipeline["tables"]) == (0, 1000, 20)
    assert set(pipeline["revenue"]) == {"coffee", "milk", "tea"}
    assert facts["trim"]["disk_bytes_after"] < facts["trim"]["disk_bytes_before"]
    assert not folder.exists()


def test_it_narrates_and_cleans_up(run: Command, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tour, "CHAPTERS", ("topic", "append"))
    ran = run("tour")
    assert (ran.code, ran.err) == (0, "")
    assert "\n1. A folder, and a topic in it\n" in ran.out
    assert "\n2. Appending: back when it is on the disk\n" in ran.out
    assert "That was the tour: 2 chapters in" in ran.out
    assert "was removed" in ran.out
    assert list(temporary.iterdir()) == []


def test_it_narrates_also_where_there_is_hardly_any_room(
    run: Command, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "CHAPTERS", ("topic",))
    monkeypatch.setenv("COLUMNS", "2")
    ran = run("tour")
    assert (ran.code, ran.err) == (0, "")
    assert "A folder," in ran.out


def test_the_folder_can_be_kept_and_named(
    run: Command, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "CHAPTERS", ("topic",))
    assert "is kept" in run("tour", "--keep").out
    assert (temporary / "tour" / "data").is_dir()
    assert run("tour", "--folder", str(tmp_path / "here")).code == 0
    assert run("tour", "--url", f"file:{tmp_path}/there").code == 0
    for name in ("here", "there"):
        assert "events" in run("topics", "--url", f"file:{tmp_path}/{name}/data").out


def test_it_never_writes_among_other_files(run: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    ran = run("tour", "--folder", str(tmp_path))
    assert ran.code == 2
    assert "is no empty folder" in ran.err
    assert run("tour", "--folder", str(tmp_path / "mine")).code == 2
    assert run("tour", "--url", "kafka://broker:9092").code == 2


def test_a_missing_part_is_one_line_and_the_tour_goes_on(
    run: Command, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "CHAPTERS", ("topic", "arrow", "append"))
    monkeypatch.setattr(arrow, "find_spec", lambda _: None)
    ran = run("tour")
    assert ran.code == 0
    assert (
        "2. To Arrow\n   Left out: pyarrow is not installed; pip install 'cordwood[arrow]' brings it.\n\n3." in ran.out
    )
    left_out = json.loads(run("tour", "--json").out.splitlines()[1])
    assert (left_out["status"], left_out["name"]) == ("missing", "arrow")
    assert "pyarrow is not installed" in left_out["reason"]


def test_without_java_the_chapter_on_spark_is_one_line(
    run: Command, temporary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tour, "CHAPTERS", ("topic", "spark", "append"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    _, chapter, after = map(json.loads, run("tour", "--json").out.splitlines())
    assert (chapter["status"], after["status"]) == ("missing", "done")
    assert "install Java 17 or newer" in chapter["reason"]
    monkeypatch.setattr(spark_process, "pyspark_problem", lambda: "Spark needs pyspark")
    assert "2. To Spark\n   Left out: Spark needs pyspark.\n\n3." in run("tour").out


def test_spark_that_fails_or_hangs_is_one_line(run: Command, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tour, "CHAPTERS", ("topic", "spark"))
    monkeypatch.setattr(spark, "_PROGRAM", "raise SystemExit('no heap')")
    ran = run("tour")
    assert (ran.code, ran.err) == (1, "cordwood: Spark failed: no heap\n")
    monkeypatch.setattr(spark, "_PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setattr(spark_process, "SECONDS_MAX", 0.1)
    assert "Left out: Spark took more than 0.1 s" in run("tour").out


@pytest.mark.processes
def test_a_failure_is_one_line_and_leaves_no_process_and_no_folder(run: Command, play: Play, temporary: Path) -> None:
    pids: list[int] = []

    async def fail(stage: Stage) -> Facts:
        async with stage.process("-c", "import time; time.sleep(60)") as process:
            pids.append(process.pid)
            raise CordwoodError("the chapter found a fault")

    play(fail)
    ran = run("tour")
    assert (ran.code, ran.err) == (1, "cordwood: the chapter found a fault\n")
    assert not is_running(pids[0])
    assert list(temporary.iterdir()) == []


def test_a_chapter_that_hangs_ends_the_tour(
    run: Command, play: Play, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: Stage) -> Facts:
        await asyncio.sleep(60)
        return {}

    play(hang)
    monkeypatch.setattr(tour, "_CHAPTER_SECONDS_MAX", 0.05)
    ran = run("tour")
    assert (ran.code, ran.err) == (1, "cordwood: chapter 1 (trial) took more than 0.05 s\n")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)], ids=lambda x: str(x)
)
def test_its_processes_end_with_it(start: Start, tmp_path: Path, number: int, code: int) -> None:
    folder = tmp_path / "tour"
    # Only the chapter with the process that never ends by itself.
    program = (
        "import sys; from cordwood.cli import main, tour; tour.CHAPTERS = ('crash',); sys.exit(main(sys.argv[1:]))"
    )
    process = start("tour", "--folder", str(folder), python=("-c", program))
    while not (folder / "crash" / "published").exists():
        assert process.poll() is None
        time.sleep(0.01)
    (child,) = children_of(process.pid)
    process.send_signal(number)
    assert process.wait(10) == code
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(child)
    assert process.stderr is not None
    assert process.stderr.read() == b""


# As Spark's Java does, it outlives a Ctrl-C and the process that started it, and holds the pipe to the tour.
STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('here', flush=True); signal.pause()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STUBBORN!r}])"
TOUR_OF_A_STUBBORN_PROCESS = f"""
import sys, types
from cordwood.cli import main, tour

async def run(stage):
    async with stage.process("-c", {PARENT!r}) as process:
        await process.stdout.readline()
        print("ready", flush=True)
        await process.wait()

trial = types.ModuleType("cordwood.cli.tour.trial")
vars(trial).update(TITLE="A trial", run=run)
sys.modules[trial.__name__] = trial
tour.CHAPTERS = ("trial",)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.processes
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_it_and_all_that_it_has_started_without_a_word(start: Start, tmp_path: Path, times: int) -> None:
    process = start(
        "tour",
        "--folder",
        str(tmp_path / "tour"),
        python=("-c", TOUR_OF_A_STUBBORN_PROCESS),
        start_new_session=True,  # a terminal tells the whole group
    )
    assert process.stdout is not None
    assert any(line == b"ready\n" for line in process.stdout)
    (parent,) = children_of(process.pid)
    (stubborn,) = children_of(parent)
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
    try:
        _, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (130, b"")
        assert not is_running(parent)
        assert not is_running(stubborn)
    finally:
        if is_running(stubborn):
            os.kill(stubborn, signal.SIGKILL)

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Batch
from tests.cli.conftest import Command, Start


@pytest.fixture(autouse=True)
async def topic(folder: Path) -> None:
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("events")
        await cw.create_topic("many", partitions=3)
        await cw.log("events").append(
            Batch.of(
                [b"caf\xc3\xa9", b"\xff\x00", None, b""],
                keys=[b"k", b"\xfe", None, b""],
                headers=[[("h", b"1"), ("h", None)], [], [], []],
                timestamps=[1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000, 1_700_000_003_000],
            )
        )


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def offsets(out: str) -> list[int]:
    return [record["offset"] for record in lines(out)]


def test_the_table_for_people(run: Command) -> None:
    assert run("log", "read", "events").out.splitlines() == [
        "OFFSET  TIME (UTC)               KEY          VALUE",
        "     0  2023-11-14 22:13:20.000  k            café  h=1  h=∅",
        "     1  2023-11-14 22:13:21.000  base64:/g==  base64:/wA=",
        "     2  2023-11-14 22:13:22.000  ∅            ∅",
        "     3  2023-11-14 22:13:23.000",
    ]


def test_json_keeps_null_empty_and_bytes_apart(run: Command) -> None:
    first, *rest = lines(run("log", "read", "events", "--json").out)
    assert first == {
        "topic": "events",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": "café",
        "headers": [["h", "1"], ["h", None]],
    }
    assert [(record["key"], record["value"]) for record in rest] == [
        ({"base64": "/g=="}, {"base64": "/wA="}),
        (None, None),
        ("", ""),
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--start 2", [2, 3]),
        ("--stop 2", [0, 1]),
        ("--start 1 --stop 3", [1, 2]),
        ("--start 4", []),
        ("--limit 3", [0, 1, 2]),
        ("--start 1 --limit 100", [1, 2, 3]),
        ("--from-time 2023-11-14T22:13:21.5", [2, 3]),
        ("--from-time 2023-11-14T23:13:22+01:00", [2, 3]),
        ("--from-time 2030-01-01", []),
        ("--follow --stop 4", [0, 1, 2, 3]),
        ("--follow --limit 2", [0, 1]),
    ],
)
def test_what_part_is_read(run: Command, arguments: str, expected: list[int]) -> None:
    ran = run("log", "read", "events", "--json", *arguments.split())
    assert (ran.code, ran.err) == (0, "")
    assert offsets(ran.out) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        "events --start x",
        "events --start -1",
        "events --start 5",
        "events --start 5 --follow",
        "events --start 5 --stop 9",
        "events --limit 0",
        "events --from-time yesterday",
        "events --start 1 --from-time 2023-11-14",
        "events --start 1 --last 1",
        "events --last 0",
        "many --start 1",
        "many --stop 1",
        "a/b",
        "",
    ],
)
def test_wrong_use(run: Command, arguments: str) -> None:
    ran = run("log", "read", *arguments.split())
    assert (ran.code, ran.out) == (2, "")


def test_what_is_not_there_is_exit_1(run: Command) -> None:
    assert run("log", "read", "nothing").code == 1
    ran = run("log", "read", "many", "--partition", "3")
    assert ran.code == 1
    assert ran.err == "cordwood: topic 'many' has no partition 3: its partitions are 0 to 2\n"


def test_an_empty_log_has_no_records(run: Command) -> None:
    assert run("log", "read", "many", "--json") == (0, "", "")
    assert run("log", "read", "many") == (0, "", "")


def test_trimmed_records_are_said_to_be_gone(run: Command) -> None:
    assert run("log", "trim", "events", "--before", "2", "--json").out == (
        '{"topic":"events","partition":0,"start":2,"stop":4}\n'
    )
    ran = run("log", "read", "events", "--start", "0")
    assert (ran.code, ran.out) == (1, "")
    assert "the first kept one is 2" in ran.err
    assert offsets(run("log", "read", "events", "--json").out) == [2, 3]


def test_partitions_are_read_one_after_the_other(run: Command) -> None:
    for partition in (2, 0):
        run("log", "append", "many", "--partition", str(partition), "a", "b")
    places = [(r["partition"], r["offset"]) for r in lines(run("log", "read", "many", "--json").out)]
    assert places == [(0, 0), (0, 1), (2, 0), (2, 1)]
    heading, first, *_ = run("log", "read", "many", "--partition", "2").out.splitlines()
    assert heading.split()[0] == "PARTITION"
    assert first.split()[:2] == ["2", "0"]


def test_bounds_and_trim(run: Command) -> None:
    run("log", "append", "many", "--partition", "1", "a", "b", "c")
    ran = run("log", "trim", "many", "--partition", "1", "--before", "1")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["PARTITION", "START", "STOP", "RECORDS"],
        ["1", "1", "3", "2"],
    ]
    bounds = [(b["partition"], b["start"], b["stop"]) for b in lines(run("log", "bounds", "many", "--json").out)]
    assert bounds == [(0, 0, 0), (1, 1, 3), (2, 0, 0)]
    assert run("log", "bounds", "many", "--partition", "1").out == ran.out
    assert run("log", "trim", "many", "--before", "1").code == 2
    assert run("log", "trim", "many").code == 2
    assert run("log", "trim", "events", "--before", "5").code == 2
    assert run("log", "bounds", "events", "--partition", "1").code == 1


def test_reading_makes_and_changes_nothing(run: Command, folder: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}

    before = state()
    run("log", "read", "events")
    run("log", "bounds", "events")
    run("topics")
    assert state() == before


def test_what_a_terminal_would_act_on_is_escaped(run: Command) -> None:
    run("log", "append", "many", "--key", "a\tb", "--partition", "0", "--header", "h\n\x1b=\r", "\x1b[2J\nx")
    assert "a\\tb  \\x1b[2J\\nx  h\\n\\x1b=\\r\n" in run("log", "read", "many").out


@pytest.mark.processes
async def test_a_follower_sees_what_another_process_appends(folder: Path, start: Start) -> None:
    follower = start("log", "read", "many", "--follow", "--json")
    assert follower.stdout is not None
    async with cordwood.connect(folder) as cw:
        for partition in (2, 1, 2):
            await cw.log("many", partition).append(Batch.of([b"news"]))
            assert json.loads(follower.stdout.readline())["partition"] == partition
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate()
    assert (follower.returncode, out, err) == (130, b"", b"")


@pytest.mark.processes
def test_an_interrupted_follower_of_one_log_is_quiet(start: Start) -> None:
    follower = start("log", "read", "events", "--follow")
    assert follower.stdout is not None
    for _ in range(5):
        follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate()
    assert (follower.returncode, out, err) == (130, b"", b"")


@pytest.mark.processes
@pytest.mark.parametrize("name", ["events", "many"])
def test_a_follower_ends_when_nobody_reads_it_any_more(start: Start, run: Command, name: str) -> None:
    run("log", "append", "many", "--partition", "0", "a")
    follower = start("log", "read", name, "--follow", "--json")
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.stdout.close()
    assert follower.stderr is not None
    assert (follower.wait(10), follower.stderr.read()) == (0, b"")


@pytest.mark.processes
def test_head_is_no_error(start: Start, run: Command) -> None:
    run("log", "append", "events", stdin=b"a line\n" * 200_000)
    reader = start("log", "read", "events")
    head = subprocess.run(["head", "-n", "2"], stdin=reader.stdout, capture_output=True)
    assert head.stdout.count(b"\n") == 2
    assert reader.stdout is not None
    reader.stdout.close()
    assert reader.wait() == 0
    assert reader.stderr is not None
    assert reader.stderr.read() == b""


@pytest.mark.processes
def test_an_output_that_takes_no_more_is_one_line(start: Start) -> None:
    with Path("/dev/full").open("wb") as full:
        reader = start("log", "read", "events", stdout=full)
        _, err = reader.communicate()
    assert (reader.returncode, err) == (1, b"cordwood: the output: No space left on device\n")


@pytest.mark.processes
def test_a_closed_stdout_is_no_fault(start: Start) -> None:
    reader = start("log", "read", "events", "--follow", "--limit", "1", stdout=None, preexec_fn=lambda: os.close(1))
    _, err = reader.communicate()
    assert (reader.returncode, err) == (0, b"")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "code"), [("log read nothing", 1), ("log read nothing --json", 1), ("log read", 2), ("", 2)]
)
def test_where_stderr_is_closed_nothing_takes_its_way_to_stdout(start: Start, arguments: str, code: int) -> None:
    process = start(*arguments.split(), stderr=None, preexec_fn=lambda: os.close(2))
    out, _ = process.communicate()
    assert (process.returncode, out) == (code, b"")


@pytest.mark.processes
async def test_a_reader_beside_a_writer_sees_what_is_acked(folder: Path, start: Start) -> None:
    async with cordwood.connect(folder) as cw:
        await cw.log("events").append(Batch.of([b"fresh"]))
        began = time.monotonic()
        reader = start("log", "read", "events", "--start", "4", "--json")
        out, _ = reader.communicate()
        assert (reader.returncode, json.loads(out)["value"]) == (0, "fresh")
        assert time.monotonic() - began < 10


def test_what_a_terminal_cannot_show_is_escaped(start: Start) -> None:
    for arguments in ((), ("--json",)):
        reader = start("log", "read", "events", *arguments, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        out, err = reader.communicate(timeout=60)
        assert (reader.returncode, err) == (0, b"")
        assert (b"caf\\xe9" if not arguments else b"caf\\u00e9") in out


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_an_interrupt_ends_it_long_before_the_end_of_the_log(start: Start, follow: tuple[str, ...]) -> None:
    with cordwood.sync.connect(os.environ["CORDWOOD_URL"]) as cw:
        for _ in range(40):
            cw.log("events").append(Batch.of([b"x" * 100] * 10_000))
    reader = start("log", "read", "events", "--json", *follow)
    assert reader.stdout is not None
    lines = 1 if reader.stdout.readline() else 0
    reader.send_signal(signal.SIGINT)
    lines += len(reader.stdout.read().splitlines())
    assert reader.wait(60) == 130
    assert lines < 300_000


@pytest.mark.processes
@pytest.mark.parametrize("name", ["events", "many"])
async def test_a_follower_of_a_topic_that_is_deleted_ends_with_one_line(folder: Path, start: Start, name: str) -> None:
    async with cordwood.connect(folder) as cw:
        await cw.log(name).append(Batch.of([b"seen"]))
        follower = start("log", "read", name, "--follow", "--json")
        assert follower.stdout is not None
        while json.loads(follower.stdout.readline())["value"] != "seen":
            pass
        await cw.delete_topic(name)
        _, err = follower.communicate(timeout=60)
    assert (follower.returncode, err) == (1, f"cordwood: topic '{name}' was deleted\n".encode())


@pytest.mark.parametrize("follow", [(), ("--follow",)], ids=["", "follow"])
def test_a_start_beyond_the_end_is_said_with_the_end(run: Command, follow: tuple[str, ...]) -> None:
    ran = run("log", "read", "events", "--start", "5", *follow)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "cordwood: --start 5 is beyond the end of events/0, which is 4\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--last 1", [3]),
        ("--last 3 --stop 3", [0, 1, 2]),
        ("--last 2 --stop 3", [1, 2]),
        ("--last 100", [0, 1, 2, 3]),
        ("--last 2 --follow --limit 2", [2, 3]),
    ],
)
def test_the_last_records_are_read(run: Command, arguments: str, expected: list[int]) -> None:
    ran = run("log", "read", "events", "--json", *arguments.split())
    assert (ran.code, ran.err) == (0, "")
    assert offsets(ran.out) == expected


def test_the_last_records_are_those_of_each_partition(run: Command) -> None:
    for partition in ("0", "2"):
        run("log", "append", "many", "--partition", partition, "a", "b", "c")
    read = lines(run("log", "read", "many", "--last", "2", "--json").out)
    assert [(record["partition"], record["offset"]) for record in read] == [(0, 1), (0, 2), (2, 1), (2, 2)]


def test_the_last_records_begin_no_earlier_than_the_log(run: Command) -> None:
    run("log", "trim", "events", "--before", "3")
    assert offsets(run("log", "read", "events", "--last", "2", "--json").out) == [3]


def test_a_time_may_be_counted_back_from_now(run: Command, folder: Path) -> None:
    now = int(time.time() * 1000)
    ages = [25 * 3600, 90 * 60, 10]
    with cordwood.sync.connect(folder) as cw:
        stamps = [now - age * 1000 for age in ages]
        cw.log("many").append(Batch.of([b"day", b"hour", b"now"], timestamps=stamps))

    def read_since(span: str) -> list[str]:
        ran = run("log", "read", "many", "--from-time", span, "--json")
        assert (ran.code, ran.err) == (0, "")
        return [record["value"] for record in lines(ran.out)]

    assert read_since("-2d") == ["day", "hour", "now"]
    assert read_since("-2h") == ["hour", "now"]
    assert read_since("-60m") == ["now"]
    assert read_since("-3600s") == ["now"]
    assert read_since("-1s") == []


@pytest.mark.parametrize("span", ["-1x", "-", "-h", "-999999999d"])
def test_a_span_that_is_none_is_wrong_use(run: Command, span: str) -> None:
    assert run("log", "read", "events", f"--from-time={span}").code == 2


@pytest.mark.processes
def test_raw_values_are_the_bytes_that_were_appended(start: Start) -> None:
    reader = start("log", "read", "events", "--raw")
    out, err = reader.communicate(timeout=60)
    assert (reader.returncode, err) == (0, b"")
    assert out == b"caf\xc3\xa9\n\xff\x00\n\n\n"


@pytest.mark.processes
def test_raw_values_of_a_follower_come_at_once(start: Start) -> None:
    follower = start("log", "read", "events", "--raw", "--follow")
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(4)] == [b"caf\xc3\xa9\n", b"\xff\x00\n", b"\n", b"\n"]


def test_values_are_either_raw_or_json(run: Command) -> None:
    ran = run("log", "read", "events", "--raw", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "--raw and --json" in ran.err


@pytest.mark.processes
@pytest.mark.parametrize(
    ("columns", "heading"),
    [(40, ["OFFSET", "KEY", "VALUE"]), (100, ["OFFSET", "TIME", "(UTC)", "KEY", "VALUE"])],
)
def test_a_narrow_terminal_shows_values(start: Start, run: Command, columns: int, heading: list[str]) -> None:
    run("log", "append", "events", "--key", "a-key-that-is-long-" * 5, "the value is here")
    ours, theirs = pty.openpty()
    reader = start("log", "read", "events", stdout=theirs, env={**os.environ, "COLUMNS": str(columns)})
    assert reader.wait(60) == 0
    os.close(theirs)
    shown = read_all(ours).decode().splitlines()
    os.close(ours)
    assert shown[0].split() == heading
    assert "the value is" in shown[5]
    assert max(map(len, shown)) <= columns


def read_all(terminal: int) -> bytes:
    """All that was written to a terminal whose other end is closed."""
    shown = b""
    try:
        while more := os.read(terminal, 65536):
            shown += more
    except OSError:
        pass  # the kernel reports the closed end so
    return shown

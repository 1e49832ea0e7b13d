"""`cordwood wal`: what it shows, what it changes, and that looking fences nobody."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Unavailable
from cordwood.log.native.api.log import FolderLog
from cordwood.testing.kafka import Broker
from tests.cli.conftest import Command, Start


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
async def region(folder: Path) -> None:
    async with cordwood.connect(folder) as cw, cw.wal("metrics").region(7) as region:
        await region.write_many({42: [b"caf\xc3\xa9", b"\xff"], 43: [b""]})
        await region.write(42, [b"c", b"d"])


def test_writing_makes_a_region_and_numbers_go_on(run: Command) -> None:
    ran = run("wal", "write", "metrics", "7", "42", "a", "b")
    assert (ran.code, ran.out.split()) == (0, ["TABLE", "FIRST", "LAST", "ENTRIES", "42", "1", "2", "2"])
    ran = run("wal", "write", "metrics", "7", "42", "--json", stdin=b"c\nd\ne")
    assert lines(ran.out) == [{"table": 42, "start": 3, "stop": 6}]
    assert [log["payload"] for log in lines(run("wal", "replay", "metrics", "7", "--json").out)] == list("abcde")
    assert run("wal", "write", "metrics", "7", "42").out == "nothing was written\n"


@pytest.mark.usefixtures("region")
def test_tables_for_people(run: Command) -> None:
    assert run("wal", "regions", "metrics").out.split() == ["REGION", "7"]
    heading, *rows, held = run("wal", "tables", "metrics", "7").out.splitlines()
    assert heading == "TABLE  NEXT  DELETED THROUGH  LIVE  HIGH WATERMARK"
    assert [row.split()[:4] for row in rows] == [["42", "5", "0", "4"], ["43", "2", "0", "1"]]
    assert held.endswith("from offset 1 on, where table 42 has live entries")
    assert run("wal", "read", "metrics", "7", "42", "--start", "2").out.splitlines() == [
        "TABLE  SEQUENCE  OFFSET  PAYLOAD",
        "   42         2       1  base64:/w==",
        "   42         3       3  c",
        "   42         4       3  d",
    ]


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize("verb", ["regions metrics", "tables metrics 7", "read metrics 7 42", "replay metrics 7"])
def test_looking_makes_and_changes_nothing(run: Command, folder: Path, verb: str) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}

    before = state()
    assert run("wal", *verb.split()).code == 0
    assert state() == before


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_a_limit_may_lie_in_the_middle_of_a_write(run: Command, limit: int) -> None:
    shown = lines(run("wal", "read", "metrics", "7", "42", "--json", "--limit", str(limit)).out)
    assert [log["sequence"] for log in shown] == [1, 2, 3, 4][:limit]


@pytest.mark.usefixtures("region")
def test_json_for_machines(run: Command) -> None:
    assert lines(run("wal", "regions", "metrics", "--json").out) == [{"name": "metrics", "region": 7}]
    first, second = lines(run("wal", "tables", "metrics", "7", "--json").out)
    assert first == {"table": 42, "next_sequence": 5, "deleted_through": 0, "high_watermark": 4, "oldest_offset": 1}
    assert second["table"] == 43
    logs = lines(run("wal", "replay", "metrics", "7", "--json", "--limit", "3").out)
    assert logs == [
        {"table": 42, "sequence": 1, "offset": 1, "payload": "café"},
        {"table": 42, "sequence": 2, "offset": 1, "payload": {"base64": "/w=="}},
        {"table": 43, "sequence": 1, "offset": 2, "payload": ""},
    ]
    read = run("wal", "read", "metrics", "7", "42", "--start", "3", "--stop", "4", "--json")
    assert [log["payload"] for log in lines(read.out)] == ["c"]


@pytest.mark.usefixtures("region")
def test_what_is_marked_is_not_shown_and_cleaned_away(run: Command, folder: Path) -> None:
    ran = run("wal", "mark", "metrics", "7", "42", "--through", "3")
    assert ran.out == "table 42 is deleted through 3: 1 of its entries are live\n"
    assert lines(run("wal", "mark", "metrics", "7", "43", "--through", "1", "--json").out) == [
        {"table": 43, "deleted_through": 1}
    ]
    assert [log["payload"] for log in lines(run("wal", "replay", "metrics", "7", "--json").out)] == ["d"]
    trimmed, left = run("wal", "clean", "metrics", "7").out.splitlines()
    assert trimmed == "trimmed to offset 3, from 0"
    assert left.endswith("are left, since table 42 has live entries there")
    assert lines(run("log", "bounds", "metrics_data_7", "--json").out)[0]["start"] == 3
    assert run("wal", "mark", "metrics", "7", "42", "--through", "9").code == 2
    assert run("wal", "mark", "metrics", "7", "99", "--through", "1").code == 1


def test_looking_fences_nobody_and_makes_nothing(run: Command, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw, cw.wal("metrics").region(7) as owner:
        owner.write(42, [b"a"])
        for verb in (("regions", "metrics"), ("tables", "metrics", "7"), ("replay", "metrics", "7")):
            assert run("wal", *verb).code == 0
        assert run("wal", "read", "metrics", "7", "42").code == 0
        assert owner.write(42, [b"b"]) == range(2, 3)
        ran = run("wal", "replay", "metrics", "8")
        assert (ran.code, "has no region 8" in ran.err) == (1, True)
        assert run("wal", "regions", "other").out == "write-ahead log 'other' has no regions\n"
        assert cw.wal("metrics").regions() == [7]


def test_a_region_on_kafka(run: Command, kafka: Broker) -> None:
    where = ("--url", kafka.url)
    try:
        assert run("wal", "write", "cli-wal", "7", "42", "a", "b", *where).code == 0
        assert run("wal", "write", "cli-wal", "7", "43", "c", *where).code == 0
        logs = lines(run("wal", "replay", "cli-wal", "7", "--json", *where).out)
        assert [(log["table"], log["sequence"], log["payload"]) for log in logs] == [
            (42, 1, "a"),
            (42, 2, "b"),
            (43, 1, "c"),
        ]
    finally:
        for topic in ("cli-wal_data_7", "cli-wal_meta_7"):
            run("topics", "delete", topic, "--yes", *where)


@pytest.mark.processes
def test_a_fenced_writer_says_so_and_keeps_its_acked_entries(start: Start, run: Command, kafka: Broker) -> None:
    where = ("--json", "--url", kafka.url)
    try:
        first = start("wal", "write", "cli-taken", "7", "42", *where)
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stderr is not None
        first.stdin.write(b"acked\n")
        first.stdin.flush()
        assert lines(first.stdout.readline().decode()) == [{"table": 42, "start": 1, "stop": 2}]
        assert lines(run("wal", "write", "cli-taken", "7", "42", "newer", *where).out)[0]["start"] == 2
        first.stdin.write(b"too late\n")
        first.stdin.close()
        assert first.wait() == 1
        assert first.stdout.read() == b""
        assert b"cordwood: region 7 in cli-taken_data_7/0 was opened by " in first.stderr.read()
        logs = lines(run("wal", "replay", "cli-taken", "7", *where).out)
        assert [log["payload"] for log in logs] == ["acked", "newer"]
    finally:
        for topic in ("cli-taken_data_7", "cli-taken_meta_7"):
            run("topics", "delete", topic, "--yes", *where)


@pytest.mark.parametrize("codec", ["cordwood", "rfc"])
def test_a_line_may_be_as_long_as_a_write_and_short_ones_share_writes(run: Command, codec: str) -> None:
    write = ("wal", "write", "metrics", "7", "42", "--codec", codec)
    assert run(*write, stdin=b"x" * (3 << 19)).out.split()[-4:] == ["42", "1", "1", "1"]
    ran = run(*write, stdin=b"y\n" * 100_000)
    assert (ran.err, ran.out.split()[-4:]) == ("", ["42", "2", "100001", "100,000"])
    ran = run(*write, stdin=b"fits\n" + b"z" * ((2 << 20) + 1))
    assert (ran.code, ran.err) == (1, "cordwood: line 2 has more than 2097152 bytes: split it\n")
    assert ran.out.split()[-4:] == ["42", "100002", "100002", "1"]


def test_other_codecs_and_layouts(run: Command) -> None:
    rfc = ("--codec", "rfc", "--layout", "one-topic")
    assert run("wal", "write", "old", "7", "42", "a", "b", *rfc).code == 0
    assert [log["payload"] for log in lines(run("wal", "replay", "old", "7", "--json", *rfc).out)] == ["a", "b"]
    assert run("wal", "regions", "old", *rfc).out.split() == ["REGION", "7"]
    assert run("wal", "regions", "old").out == "write-ahead log 'old' has no regions\n"
    ran = run("wal", "regions", "old", "--codec", "xml")
    assert (ran.code, ran.out) == (2, "")
    assert "invalid choice: 'xml'" in ran.err


@pytest.mark.usefixtures("region")
def test_a_region_of_another_codec_is_one_line_that_names_the_codec(start: Start, run: Command) -> None:
    assert run("wal", "mark", "metrics", "7", "42", "--through", "4").code == 0
    assert run("wal", "clean", "metrics", "7").code == 0
    assert lines(run("log", "bounds", "metrics_meta_7", "--json").out)[0]["start"] > 0
    for arguments in (("replay", "metrics", "7"), ("write", "metrics", "7", "42", "a")):
        process = start("wal", *arguments, "--codec", "rfc")
        out, err = process.communicate()
        assert (process.returncode, out, err.count(b"\n")) == (1, b"", 1)
        assert err.startswith(b"cordwood: metrics_meta_7/0 at offset ")
        assert err.endswith(b"(read with --codec rfc)\n")


@pytest.mark.usefixtures("region")
def test_what_is_not_there_is_named_with_what_to_do(run: Command) -> None:
    for verb in (("tables",), ("read", "42"), ("replay",), ("clean",), ("mark", "42", "--through", "1")):
        ran = run("wal", verb[0], "metrics", "8", *verb[1:])
        assert (ran.code, ran.out) == (1, "")
        assert (
            ran.err
            == "cordwood: write-ahead log 'metrics' has no region 8: `cordwood wal regions metrics` lists them\n"
        )
    ran = run("wal", "mark", "metrics", "7", "44", "--through", "1")
    assert (ran.code, ran.err) == (
        1,
        "cordwood: region 7 of 'metrics' has no table 44: `cordwood wal tables metrics 7` lists them\n",
    )
    ran = run("wal", "mark", "metrics", "7", "42", "--through", "5")
    assert (ran.code, ran.err) == (
        2,
        "cordwood: table 42 cannot be deleted through 5: its last sequence number is 4\n",
    )
    assert run("wal", "regions", "other").out == "write-ahead log 'other' has no regions\n"
    ran = run("wal", "read", "metrics", "7", "44")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.usefixtures("region")
def test_a_log_that_refuses_to_be_trimmed_is_no_success(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: object, before: int, *, timeout: float | None = None) -> None:
        raise Unavailable("trimming metrics_data_7/0: this user lacks rights on the topic", reason="permission")

    assert run("wal", "mark", "metrics", "7", "42", "--through", "4").code == 0
    with monkeypatch.context() as guarded:
        guarded.setattr(FolderLog, "trim", refuse)
        ran = run("wal", "clean", "metrics", "7")
    assert (ran.code, ran.out) == (1, "")
    assert "cordwood: trimming metrics_data_7/0: this user lacks rights on the topic\n" in ran.err
    assert run("wal", "clean", "metrics", "7").code == 0


@pytest.mark.processes
def test_an_interrupt_is_quiet_and_acked_entries_stay(start: Start, run: Command) -> None:
    process = start("wal", "write", "metrics", "7", "42", "--json")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"acked\nnot a whole line")
    process.stdin.flush()
    assert lines(process.stdout.readline().decode()) == [{"table": 42, "start": 1, "stop": 2}]
    second = run("wal", "write", "metrics", "7", "43", "b")
    assert second.code == 1
    assert f"is being written by process {process.pid}" in second.err
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert [log["payload"] for log in lines(run("wal", "replay", "metrics", "7", "--json").out)] == ["acked"]

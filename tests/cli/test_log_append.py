import json
import os
import pty
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, Start


@pytest.fixture(autouse=True)
def topic(run: Command) -> None:
    run("topics", "create", "events")
    run("topics", "create", "many", "--partitions", "4")


def stored(run: Command, topic: str = "events") -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("log", "read", topic, "--json").out.splitlines()]


def values(run: Command, topic: str = "events") -> list[str]:
    return [record["value"] for record in stored(run, topic)]


def test_values_are_one_batch_and_their_offsets_are_printed(run: Command) -> None:
    ran = run("log", "append", "events", "hello", "world")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["PARTITION", "FIRST", "LAST", "RECORDS"],
        ["0", "0", "1", "2"],
    ]
    assert values(run) == ["hello", "world"]


def test_every_record_gets_the_key_and_the_headers(run: Command) -> None:
    run("log", "append", "events", "--key", "k", "--header", "a=1", "--header", "b=x=y", "one", "two")
    assert [(record["key"], record["headers"]) for record in stored(run)] == [("k", [["a", "1"], ["b", "x=y"]])] * 2


def test_options_may_stand_anywhere(run: Command) -> None:
    assert (
        run("log", "append", "--key", "k", "events", "a", "--header", "h=1", "b", "--json", "--", "-c", "--key").code
        == 0
    )
    assert values(run) == ["a", "b", "-c", "--key"]


def test_json_prints_each_ack(run: Command) -> None:
    run("log", "append", "events", "a")
    ran = run("log", "append", "events", "b", "c", "--json")
    assert json.loads(ran.out) == {"topic": "events", "partition": 0, "start": 1, "stop": 3, "records": 2}


def test_the_key_decides_the_partition_unless_one_is_named(run: Command) -> None:
    by_key = {json.loads(run("log", "append", "many", "--key", "k", "v", "--json").out)["partition"] for _ in range(3)}
    assert len(by_key) == 1
    for partition in range(4):
        run("log", "append", "many", "--key", "k", "--partition", str(partition), "here")
    assert {record["partition"] for record in stored(run, "many")} == {0, 1, 2, 3}


def test_lines_become_records_whatever_they_hold(run: Command) -> None:
    ran = run("log", "append", "events", stdin=b"one\n\n\xff\r\nlast without an end")
    assert ran.out.splitlines()[1].split() == ["0", "0", "3", "4"]
    assert [record["value"] for record in stored(run)] == [
        "one",
        "",
        {"base64": "/w0="},
        "last without an end",
    ]


def test_empty_input_appends_nothing_and_is_no_error(run: Command) -> None:
    assert run("log", "append", "events", stdin=b"") == (0, "nothing was appended\n", "")
    assert run("log", "append", "events", "--json", stdin=b"") == (0, "", "")


def test_a_value_that_begins_with_a_dash_follows_two(run: Command) -> None:
    assert run("log", "append", "events", "--", "-5").code == 0
    assert values(run) == ["-5"]


def test_arguments_that_are_no_text_are_kept_as_they_are(run: Command) -> None:
    run("log", "append", "events", os.fsdecode(b"\xff\xfe"))
    assert stored(run)[0]["value"] == {"base64": "//4="}


def test_each_file_is_one_record(run: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"two\nlines\n")
    (tmp_path / "b").write_bytes(b"")
    ran = run("log", "append", "events", "--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    assert ran.code == 0
    assert values(run) == ["two\nlines\n", ""]


def test_a_file_that_is_missing_or_too_large_fails_after_what_was_acked(run: Command, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"fine")
    (tmp_path / "big").write_bytes(bytes((2 << 20) + 1))
    ran = run("log", "append", "events", "--file", str(tmp_path / "a"), "--file", str(tmp_path / "missing"))
    assert ran.code == 1
    assert ran.err == f"cordwood: {tmp_path}/missing: No such file or directory\n"
    assert ran.out.splitlines()[1].split() == ["0", "0", "0", "1"]
    ran = run("log", "append", "events", "--file", str(tmp_path / "big"))
    assert (ran.code, ran.out) == (1, "")
    assert "more than 2097152 bytes" in ran.err
    assert values(run) == ["fine"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("events", "v", "--header", "no-equals"),
        ("events", "v", "--header", "=x"),
        ("events", "v", "--partition", "-1"),
        ("events", "v", "--file", "x"),
        ("a/b", "v"),
        (),
    ],
    ids=" ".join,
)
def test_wrong_use(run: Command, arguments: tuple[str, ...]) -> None:
    ran = run("log", "append", *arguments)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("values", [(), ("v",)], ids=["lines", "values"])
def test_the_name_of_a_header_is_text(run: Command, values: tuple[str, ...]) -> None:
    ran = run("log", "append", "events", "--header", os.fsdecode(b"\xff=\xff"), *values, stdin=b"a line\n")
    assert (ran.code, ran.out) == (2, "")
    assert "the name of a header is UTF-8" in ran.err.splitlines()[-1]
    assert run("log", "append", "events", "--header", os.fsdecode(b"n=\xff"), *values, stdin=b"a line\n").code == 0
    assert stored(run)[0]["headers"] == [["n", {"base64": "/w=="}]]


def test_an_unknown_topic_or_partition_is_exit_1(run: Command) -> None:
    ran = run("log", "append", "nothing", "v")
    assert ran.code == 1
    assert ran.err == "cordwood: topic 'nothing' does not exist: make it with `cordwood topics create nothing`\n"
    assert run("log", "append", "many", "--partition", "4", "v").code == 1


def test_a_line_that_is_too_long_is_named_and_what_came_before_stays(run: Command) -> None:
    ran = run("log", "append", "events", stdin=b"first\nsecond\n" + bytes(3 << 20) + b"\nlast\n")
    assert ran.code == 1
    assert ran.err == "cordwood: line 3 has more than 2097152 bytes: split it\n"
    assert values(run) == ["first", "second"]


def test_a_closed_stdin_is_wrong_use(start: Start) -> None:
    process = start("log", "append", "events", stdin=None, preexec_fn=lambda: os.close(0))
    _, err = process.communicate()
    assert process.returncode == 2
    assert b"standard input is closed" in err


@pytest.mark.processes
def test_a_long_input_goes_in_many_batches_and_little_memory(start: Start, run: Command, tmp_path: Path) -> None:
    line = b"x" * 999 + b"\n"
    with (tmp_path / "input").open("wb") as file:
        for _ in range(100):
            file.write(line * 1000)
    with (tmp_path / "input").open("rb") as file:
        process = start("log", "append", "events", "--json", stdin=file)
        assert process.stdout is not None
        acks = []
        peak_kib = 0
        for ack in process.stdout:
            acks.append(json.loads(ack))
            # Not ru_maxrss, which counts the memory of this process too, before the child became the command.
            peak_kib = max(peak_kib, _peak_kib(process.pid))
    assert process.wait() == 0
    assert len(acks) > 50
    assert (acks[0]["start"], acks[-1]["stop"]) == (0, 100_000)
    # The whole input is 100 MB.
    assert 0 < peak_kib < 80_000


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


@pytest.mark.processes
def test_each_line_of_a_slow_pipe_is_acked_when_it_comes(start: Start) -> None:
    process = start("log", "append", "events", "--json")
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(3):
        process.stdin.write(b"line\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["start"] == number
    process.stdin.close()
    assert process.wait() == 0


@pytest.mark.processes
def test_an_interrupt_is_quiet_and_what_was_acked_stays(start: Start, run: Command) -> None:
    process = start("log", "append", "events", "--json")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"acked\nnot a whole line")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert values(run) == ["acked"]


@pytest.mark.processes
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["log append events", "wal write metrics 7 42"])
def test_where_nobody_hears_the_acks_any_more_it_fails_and_appends_no_more(
    start: Start, command: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    process = start(*command.split(), "--json")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"acked\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"acked to nobody\n")
    process.stdin.flush()
    # Its input stays open: it ends by itself.
    assert process.wait(30) == 1
    assert process.stderr is not None
    assert process.stderr.read() == b"cordwood: the output: nobody reads the acks any more: nothing more was written\n"


@pytest.mark.processes
def test_progress_is_shown_on_a_terminal_only(start: Start, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = start("log", "append", "events", stderr=theirs)
    os.close(theirs)
    assert process.stdin is not None
    process.stdin.write(b"line\n")
    process.stdin.flush()
    shown = b""
    while b"records" not in shown:  # by then it has worked for a while
        process.stdin.write(b"line\n" * 10_000)
        process.stdin.flush()
        shown += os.read(ours, 1000) if _readable(ours) else b""
    process.stdin.close()
    assert process.wait() == 0
    os.close(ours)
    assert b"appended: " in shown


def _readable(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0.01)[0])


@pytest.mark.processes
def test_a_second_writer_is_one_line_with_the_pid_of_the_first(start: Start) -> None:
    first = start("log", "append", "events", "--json")
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdin.write(b"first\n")
    first.stdin.flush()
    first.stdout.readline()
    second = start("log", "append", "events", "second")
    out, err = second.communicate()
    assert (second.returncode, out, err.count(b"\n")) == (1, b"", 1)
    assert f"process {first.pid}".encode() in err
    assert b"try again when that one has closed it" in err


def test_records_that_were_read_as_json_are_appended_whole(run: Command) -> None:
    run("log", "append", "many", "--partition", "2", "--key", "k", "--header", "h=1", "one", "two\nlines")
    run("log", "append", "many", "--partition", "1", os.fsdecode(b"\xff\x00"), "", "\x1f café")
    run("topics", "create", "copy", "--partitions", "4")
    read = run("log", "read", "many", "--json").out
    ran = run("log", "append", "copy", "--input", "json", stdin=read.encode())
    assert (ran.code, ran.err) == (0, "")
    assert run("log", "read", "copy", "--json").out == read.replace('"topic":"many"', '"topic":"copy"')


def test_nulls_and_times_of_json_records_are_kept(run: Command) -> None:
    lines = [
        b'{"value": null, "key": "", "timestamp": 5, "headers": [["h", null], ["h", {"base64": "/w=="}]]}',
        b'{"value": ""}',
    ]
    assert run("log", "append", "events", "--input", "json", stdin=b"\n".join(lines)).code == 0
    first, second = stored(run)
    assert (first["value"], first["key"], first["timestamp"]) == (None, "", 5)
    assert first["headers"] == [["h", None], ["h", {"base64": "/w=="}]]
    assert (second["value"], second["key"], second["headers"]) == ("", None, [])
    assert second["timestamp"] > 1_700_000_000_000


def test_the_partition_of_the_command_is_that_of_all_json_records(run: Command) -> None:
    lines = b'{"value": "a", "partition": 1}\n{"value": "b", "partition": 9}\n'
    assert run("log", "append", "many", "--partition", "3", "--input", "json", stdin=lines).code == 0
    assert [(record["partition"], record["value"]) for record in stored(run, "many")] == [(3, "a"), (3, "b")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no json", "Expecting value"),
        ("[]", "it is no JSON object"),
        ('{"key": "k"}', "it has no value"),
        ('{"value": 5}', "5 is no string"),
        ('{"value": {"base64": "?"}}', ""),
        ('{"value": "\\ud800"}', "surrogates"),
        ('{"value": "v", "headers": ["h"]}', "no pair of a name and a value"),
        ('{"value": "v", "timestamp": "now"}', "no whole number"),
        ('{"value": "v", "vaule": "v"}', "'vaule' is no part of a record"),
        ('{"value": "v", "partition": 1}', "line 3 is of partition 1, and topic 'events' has 0 to 0"),
        ("[" * 100_000, ""),
    ],
    ids=lambda text: text[:30],
)
def test_a_wrong_line_is_named_and_those_before_it_are_appended(run: Command, line: str, why: str) -> None:
    lines = ["first", "second"]
    stdin = "".join(f'{{"value": "{value}"}}\n' for value in lines) + f'{line}\n{{"value": "later"}}\n'
    ran = run("log", "append", "events", "--input", "json", stdin=stdin.encode())
    assert ran.code == 2
    assert ran.err.startswith("cordwood: line 3 ")
    assert why in ran.err
    assert values(run) == lines


def test_a_value_as_large_as_the_limit_allows_is_taken_from_json(run: Command) -> None:
    value = "\x01" * 1_900_000  # six bytes each in JSON
    assert run("log", "append", "events", "--input", "json", stdin=json.dumps({"value": value}).encode()).code == 0
    assert values(run) == [value]


@pytest.mark.parametrize("arguments", ["a", "--file x", "--key k", "--header h=1", "--input xml"])
def test_json_records_come_without_other_sources(run: Command, arguments: str) -> None:
    ran = run("log", "append", "events", "--input", "json", *arguments.split())
    assert (ran.code, ran.out) == (2, "")

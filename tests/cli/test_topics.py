import io
import json
import sys
from pathlib import Path

import pytest

from cordwood.cli import connection
from cordwood.client import Connecting, connect
from tests.cli.conftest import Command, Start


def test_what_was_created_is_listed(run: Command) -> None:
    assert run("topics", "create", "events", "--retention", "7d", "--retention-bytes", "10GiB").code == 0
    assert run("topics", "create", "orders", "--partitions", "4").code == 0
    heading, events, orders = run("topics").out.splitlines()
    assert heading.split() == ["TOPIC", "PARTITIONS", "RECORDS", "RETENTION", "DURABILITY"]
    assert events.split()[:6] == ["events", "1", "0", "7d", "or", "10"]
    assert orders.split()[:5] == ["orders", "4", "0", "until", "trimmed"]


def test_json_has_one_object_a_topic(run: Command) -> None:
    created = json.loads(run("topics", "create", "events", "--retention", "90s", "--json").out)
    run("log", "append", "events", "a", "b")
    (line,) = run("topics", "--json").out.splitlines()
    listed = json.loads(line)
    assert listed == {**created, "records": 2}
    assert listed == {
        "topic": "events",
        "id": listed["id"],
        "partitions": 1,
        "replication": 1,
        "retention_seconds": 90.0,
        "retention_bytes": None,
        "durability": listed["durability"],
        "batch_bytes_max": 2 << 20,
        "records": 2,
    }


def test_records_of_all_partitions_are_counted_without_the_trimmed_ones(run: Command) -> None:
    run("topics", "create", "events", "--partitions", "70")
    run("log", "append", "events", "--partition", "0", "a", "b", "c")
    run("log", "append", "events", "--partition", "69", "d")
    run("log", "trim", "events", "--partition", "0", "--before", "2")
    assert json.loads(run("topics", "--json").out)["records"] == 2


def test_a_prefix_chooses(run: Command) -> None:
    for name in ("events", "even", "orders"):
        run("topics", "create", name)
    listed = run("topics", "--prefix", "eve", "--json").out.splitlines()
    assert [json.loads(line)["topic"] for line in listed] == ["even", "events"]
    assert "no topics at" in run("topics", "--prefix", "x").out


def test_a_folder_that_does_not_exist_is_said_and_not_made(run: Command, folder: Path) -> None:
    ran = run("topics")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"cordwood: {folder} does not exist: `cordwood topics create NAME` makes it\n"
    assert not folder.exists()


def test_the_hint_to_create_has_the_url_that_was_given(run: Command, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    hint = f"`cordwood topics create NAME --url 'file:{elsewhere}'` makes it"
    ran = run("log", "read", "events", "--url", f"file:{elsewhere}")
    assert ran.err == f"cordwood: {elsewhere} does not exist: {hint}\n"


@pytest.mark.parametrize("command", ["log append nope x", "log append nope"])
def test_only_what_makes_topics_makes_a_folder(run: Command, folder: Path, command: str) -> None:
    ran = run(*command.split(), stdin=b"a line\n")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"cordwood: {folder} does not exist: `cordwood topics create NAME` makes it\n"
    assert not folder.exists()


REMOVING = [
    "log trim nope --before 0",
    "topics delete nope --yes",
    "topics alter nope --retention none",
    "wal mark m 7 42 --through 1",
    "wal clean m 7",
]


@pytest.mark.parametrize("command", REMOVING)
def test_a_command_that_removes_makes_no_folder(run: Command, folder: Path, command: str) -> None:
    ran = run(*command.split())
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"cordwood: {folder} does not exist: check --url\n"
    assert not folder.exists()


@pytest.mark.parametrize("command", REMOVING)
def test_a_command_that_removes_never_suggests_to_create(run: Command, command: str) -> None:
    run("topics", "create", "other")
    ran = run(*command.split())
    assert (ran.code, ran.out) == (1, "")
    assert "create" not in ran.err
    assert "make" not in ran.err


@pytest.mark.parametrize(
    "command",
    [
        "topics create ünïcode",
        "topics create x --partitions 10001",
        "topics create x --retention 0s",
        "topics create x --retention-bytes 0",
        "topics create x --replication 3",
        "wal write ünïcode 7 42 x",
        f"wal write {'m' * 223} 7 42 x",
        f"wal write m {1 << 63} 42 x",
        f"wal write m 7 {1 << 63} x",
        f"wal write m 7 {1 << 32} x --codec rfc",
        "wal write m 7 42 x --codec horaedb",
    ],
)
def test_what_is_wrong_is_noticed_before_a_folder_is_made_for_it(run: Command, folder: Path, command: str) -> None:
    ran = run(*command.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1].startswith(("cordwood ", "cordwood: "))
    assert not folder.exists()


def test_creating_twice_fails_unless_that_is_ok(run: Command) -> None:
    run("topics", "create", "events", "--partitions", "3")
    ran = run("topics", "create", "events")
    assert ran.code == 1
    assert ran.err == "cordwood: topic 'events' exists already: --exist-ok takes it as it is\n"
    again = run("topics", "create", "events", "--exist-ok", "--json")
    assert (again.code, json.loads(again.out)["partitions"]) == (0, 3)
    other = run("topics", "create", "events", "--exist-ok", "--partitions", "1")
    assert (other.code, other.out) == (1, "")
    assert other.err.startswith("cordwood: topic 'events' exists, and its partitions is 3, not 1: ")


def test_limits_are_altered_and_others_stay(run: Command) -> None:
    run("topics", "create", "events", "--retention", "7d")
    assert "7d or 10" in run("topics", "alter", "events", "--retention-bytes", "10GiB").out
    altered = json.loads(run("topics", "alter", "events", "--retention", "none", "--json").out)
    assert (altered["retention_seconds"], altered["retention_bytes"]) == (None, 10 << 30)
    assert json.loads(run("topics", "--json").out) == {**altered, "records": 0}
    missing = run("topics", "alter", "nope", "--retention", "7d")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == "cordwood: topic 'nope' does not exist: `cordwood topics` lists those that do\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("create",),
        ("create", "a/b"),
        ("create", ".."),
        ("create", "x", "--partitions", "0"),
        ("create", "x", "--partitions", "1000000"),
        ("create", "x", "--partitions", "two"),
        ("create", "x", "--retention", "7"),
        ("create", "x", "--retention", "0d"),
        ("create", "x", "--retention", "-1d"),
        ("create", "x", "--retention", "9999999999999999w"),
        ("create", "x", "--retention-bytes", "10GB/s"),
        ("create", "x", "--retention-bytes", "0"),
        ("create", "x", "--retention-bytes", "99999999TiB"),
        ("create", "x", "--retention-bytes", "9" * 400),
        ("alter",),
        ("alter", "x"),
        ("alter", "x", "--retention", "0d"),
        ("alter", "x", "--retention-bytes", "None"),
        ("delete",),
        ("rename", "x"),
        ("--url", "data"),
        ("--url", "ftp://x"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_exit_2_and_says_why(run: Command, arguments: tuple[str, ...]) -> None:
    ran = run("topics", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1].startswith("cordwood")


@pytest.mark.parametrize("span", ["20000w", "366d", "0s", "0.0001ms", "9" * 400 + "s"])
def test_a_timeout_that_makes_no_sense_is_refused_with_the_limit(run: Command, folder: Path, span: str) -> None:
    ran = run("topics", "create", "x", "--timeout", span)
    assert (ran.code, ran.out) == (2, "")
    assert " at most " in ran.err.splitlines()[-1]
    assert not folder.exists()


@pytest.mark.parametrize(("given", "seconds"), [((), 30), (("--timeout", "250ms"), 0.25), (("--timeout", "2m"), 120)])
def test_the_timeout_is_that_of_the_connection(
    run: Command, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], seconds: float
) -> None:
    timeouts: list[float] = []

    def noted(url: str, *, config: dict[str, str], timeout: float, wait: float, read_only: bool) -> Connecting:
        timeouts.append(timeout)
        assert wait == 0
        return connect(url, config=config, timeout=30, read_only=read_only)

    monkeypatch.setattr(connection, "connect", noted)
    assert run("topics", "create", "x", *given).code == 0
    assert run("topics", *given).code == 0
    assert timeouts == [seconds] * 2


def test_a_year_can_be_waited(run: Command) -> None:
    assert run("topics", "create", "x", "--timeout", "365d").code == 0
    assert run("log", "append", "x", "--timeout", "52w", stdin=b"v\n").code == 0
    assert run("log", "read", "x", "--timeout", "365d", "--json").out.count("\n") == 1


def test_an_engine_that_is_not_there_is_one_line(run: Command) -> None:
    ran = run("topics", "--url", "kafka://127.0.0.1:1", "--timeout", "1s")
    assert ran.code == 1
    assert ran.err.count("\n") == 1


def test_a_file_is_no_folder(run: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("topics", "--url", f"file:{tmp_path}/file").code == 2


def test_delete_wants_a_yes_where_nobody_can_be_asked(run: Command) -> None:
    run("topics", "create", "events")
    ran = run("topics", "delete", "events")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert run("topics", "delete", "events", "--yes").out == "deleted events\n"
    assert "no topics" in run("topics").out
    again = run("topics", "delete", "events", "--yes")
    assert (again.code, again.out) == (1, "")
    assert again.err == "cordwood: topic 'events' does not exist: `cordwood topics` lists those that do\n"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_delete_asks_on_a_terminal(
    run: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, code: int
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    from cordwood.cli import main

    run("topics", "create", "events")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert main(["topics", "delete", "events"]) == code
    assert "delete topic 'events' and all its records? [y/N]" in capsys.readouterr().err
    assert run("topics", "--json").out.count("\n") == code


def test_a_url_before_the_verb_counts_too(run: Command, tmp_path: Path) -> None:
    url = f"file:{tmp_path}/other"
    assert run("topics", "--url", url, "--json", "create", "events").out.startswith("{")
    assert "events" in run("topics", "--url", url).out


@pytest.mark.parametrize("value", ["", None])
def test_without_any_url_it_is_a_folder_here(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    if value is None:
        monkeypatch.delenv("CORDWOOD_URL")
    else:
        monkeypatch.setenv("CORDWOOD_URL", value)
    assert run("topics", "create", "events").code == 0
    assert (tmp_path / "cordwood-data").is_dir()


HOLDER = """
import sys, cordwood
cw = cordwood.sync.connect(sys.argv[1])
print("holds", flush=True)
sys.stdin.readline()
cw.close()
"""


@pytest.mark.processes
def test_a_command_that_writes_waits_for_a_busy_folder_if_it_is_told_to(
    run: Command, start: Start, folder: Path
) -> None:
    holder = start("-c", HOLDER, f"file:{folder}", python=())
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"holds\n"
    refused = run("topics", "create", "events")
    assert (refused.code, f"written by process {holder.pid}" in refused.err) == (1, True)
    assert run("topics", "create", "events", "--wait", "200ms").code == 1
    waiting = start("topics", "create", "events", "--wait", "1m", "--json")
    assert run("topics", "--wait", "1m").code == 0, "a command that reads needs no turn"
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    out, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, json.loads(out)["topic"], errors) == (0, "events", b"")

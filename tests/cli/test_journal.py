"""`cordwood journal`: what it shows, what it changes, and that looking changes nothing."""

import json
import re
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Batch, Event
from cordwood.cli.journal.store import STORE_VARIABLE
from tests.cli.conftest import Command, Start

COLUMNS = ("FIRST", "LAST", "EVENTS", "PARTITION", "OFFSET")


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def orders(folder: Path) -> None:
    """`order-1` with four events, of which the first is deleted and a snapshot is at the second; and `order-2`."""
    with cordwood.sync.connect(folder) as cw, cw.journal("orders") as journal:
        first = [Event.json_bytes(b'{"price":1.10}', {"paid", "big"}), Event.text("caf\u00e9")]
        journal.append("order-1", first, expected=0, id="first")
        journal.append("order-1", [Event.binary(b"\xff"), Event.empty()], id="second", headers={"trace": "7"})
        journal.save_snapshot("order-1", 2, b"so far")
        journal.delete("order-1", through=1)
        journal.append("order-2", [Event.json(2)], id="other")
        journal.catch_up()


def test_appending_makes_a_topic_and_a_repetition_appends_nothing(run: Command) -> None:
    append = ("journal", "append", "orders", "order-1", '{"n":1}', '{"n":2}', "--expected", "0", "--id", "command-1")
    ran = run(*append)
    assert (ran.code, ran.out.split()) == (0, [*COLUMNS, "1", "2", "2", "2", "0"])
    assert run(*append).out == ran.out
    ran = run("journal", "append", "orders", "order-1", "3", "--expected", "0")
    assert (ran.code, ran.out) == (1, "nothing was appended\n")
    assert ran.err == (
        "cordwood: journal 'order-1' of 'orders' is at 2, not at 0: read on from 1, and decide again;"
        " append 'command-1' was first\n"
    )
    (ack,) = lines(run("journal", "append", "orders", "order-1", "3", "--expected", "2", "--id", "c", "--json").out)
    assert ack == {"key": "order-1", "start": 3, "stop": 4, "partition": 2, "offset": 3, "id": "c"}
    events = lines(run("journal", "read", "orders", "order-1", "--json").out)
    assert [event["payload"] for event in events] == [{"n": 1}, {"n": 2}, 3]


def test_lines_text_tags_and_files(run: Command, tmp_path: Path) -> None:
    append = ("journal", "append", "orders", "order-1", "--json")
    assert lines(run(*append, stdin=b'{"n":1}\n2').out)[0]["stop"] == 3
    assert lines(run(*append, "--kind", "text", "--tag", "x", "--tag", "y", stdin=b"a b\n\n").out)[0]["stop"] == 5
    (tmp_path / "bytes").write_bytes(b"\x00\xff")
    assert lines(run(*append, "--binary", str(tmp_path / "bytes")).out)[0]["start"] == 5
    events = lines(run("journal", "read", "orders", "order-1", "--json").out)
    assert [(event["kind"], event["payload"], event["tags"]) for event in events] == [
        ("json", {"n": 1}, []),
        ("json", 2, []),
        ("text", "a b", ["x", "y"]),
        ("text", "", ["x", "y"]),
        ("binary", {"base64": "AP8="}, []),
    ]
    assert run("journal", "append", "orders", "order-1").out == "nothing was appended\n"


def test_with_an_expectation_all_lines_are_one_append(run: Command) -> None:
    many = b"".join(b"%d\n" % number for number in range(30_000))
    acks = lines(run("journal", "append", "orders", "order-1", "--expected", "0", "--json", stdin=many).out)
    assert [(ack["start"], ack["stop"]) for ack in acks] == [(1, 30_001)]


def test_lines_that_grow_as_json_are_split(run: Command) -> None:
    ran = run("journal", "append", "orders", "order-1", "--kind", "text", stdin=b'"' * 700_000 + b"\n" + b'"' * 700_000)
    assert (ran.code, ran.out.split()[-5:-2]) == (0, ["1", "2", "2"])


def test_a_wrong_line_is_named_and_those_before_it_are_appended(run: Command) -> None:
    ran = run("journal", "append", "orders", "order-1", stdin=b"1\n2\nthree\n4\n")
    assert (ran.code, ran.out.split()[-5:-2]) == (2, ["1", "2", "2"])
    assert ran.err.startswith("cordwood: line 3: b'three' is not JSON")
    assert ran.err.endswith("; --kind text takes any text\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("order-1", "{"), "is not JSON"),
        (("order-1", "NaN"), "is not JSON"),
        (("", "1"), "has 0 bytes of UTF-8"),
        (("order-1", "1", "--binary", "x"), "give one of them"),
        (("order-1", "1", "--expected", "-1"), "'-1' is no whole number from 0 on"),
        (("order-1", "1", "--expire-after", "soon"), "is no time span"),
        (("order-1", "1", "--id", ""), "--id is empty"),
        (("order-1", "1", "--store", "mysql:x"), "the scheme 'mysql' is unknown"),
        (("order-1", "1", "--partitions", "0"), "is less than 1"),
    ],
)
def test_wrong_use_makes_no_folder(run: Command, folder: Path, arguments: tuple[str, ...], error: str) -> None:
    ran = run("journal", "append", "orders", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert error in ran.err
    assert not folder.exists()


@pytest.mark.usefixtures("orders")
def test_tables_for_people(run: Command) -> None:
    heading, *events = run("journal", "read", "orders", "order-1").out.splitlines()
    assert heading.split("  ")[0] == "SEQ_NR"
    shown = [[row[:6].strip(), *row[33:].split()] for row in events]
    assert shown == [["2", "text", "café"], ["3", "binary", "base64:/w=="], ["4", "empty", "∅"]]
    heading, row = run("journal", "pointer", "orders", "order-1").out.splitlines()
    assert (heading.split(), row.split()[0]) == (["SEQ_NR", "LIFE"], "4")
    assert run("journal", "pointer", "orders", "order-9").out == "there is no journal 'order-9' in 'orders'\n"
    snapshot, _, *events = run("journal", "recover", "orders", "order-1").out.splitlines()
    assert snapshot.startswith("snapshot at 2, 6 B, ")
    assert snapshot.endswith(": so far")
    assert [row.split()[0] for row in events] == ["3", "4"]
    assert run("journal", "recover", "orders", "order-2").out.startswith("no snapshot\n")
    assert run("journal", "recover", "orders", "order-9").out == "there is no journal 'order-9' in 'orders'\n"
    assert sorted(run("journal", "ids", "orders").out.splitlines()) == ["order-1", "order-2"]
    assert run("journal", "dead-letters", "orders").out == "topic 'orders' has no dead letters\n"


@pytest.mark.usefixtures("orders")
def test_json_for_machines(run: Command) -> None:
    second, _, fourth = lines(run("journal", "read", "orders", "order-1", "--json").out)
    assert (second["seq_nr"], second["payload"], second["id"], second["offset"]) == (2, "café", "first", 0)
    assert (fourth["kind"], fourth["payload"], fourth["headers"]) == (None, None, {"trace": "7"})
    only = run("journal", "read", "orders", "order-1", "--json", "--start", "3", "--stop", "4")
    assert [event["seq_nr"] for event in lines(only.out)] == [3]
    assert len(lines(run("journal", "read", "orders", "order-1", "--json", "--limit", "2").out)) == 2
    assert run("journal", "read", "orders", "order-1", "--json", "--until", "-1h").out == ""
    snapshot, third, _ = lines(run("journal", "recover", "orders", "order-1", "--json").out)
    assert (snapshot["snapshot"]["seq_nr"], snapshot["snapshot"]["payload"]) == (2, "so far")
    assert third["seq_nr"] == 3
    (found,) = lines(run("journal", "pointer", "orders", "order-1", "--json").out)
    assert (found["key"], found["seq_nr"]) == ("order-1", 4)
    assert lines(run("journal", "pointer", "orders", "order-9", "--json").out)[0]["seq_nr"] is None
    assert {entry["key"] for entry in lines(run("journal", "ids", "orders", "--json").out)} == {"order-1", "order-2"}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_reading_a_journal_that_does_not_exist_says_so_aside(run: Command, options: list[str]) -> None:
    ran = run("journal", "read", "orders", "order-9", *options)
    assert (ran.code, ran.out, ran.err) == (0, "", "there is no journal 'order-9' in 'orders'\n")
    # One that exists has no events there.
    ran = run("journal", "read", "orders", "order-1", "--start", "99", *options)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


@pytest.mark.usefixtures("orders")
def test_catching_up_shows_the_pointers_if_there_is_nothing_to_do(run: Command) -> None:
    (topic,) = lines(run("journal", "topics", "--json").out)
    (report,) = lines(run("journal", "catch-up", "orders", "--json").out)
    assert (report["records"], report["pointers"]) == (0, topic["pointers"])
    assert topic["pointers"]


def test_a_payload_keeps_its_digits(run: Command) -> None:
    run("journal", "append", "orders", "order-1", '{"price":1.10,"big":12345678901234567890.50}')
    assert run("journal", "read", "orders", "order-1", "--json").out.endswith(
        '"payload":{"price":1.10,"big":12345678901234567890.50}}\n'
    )


@pytest.mark.usefixtures("orders")
def test_topics_lists_partitions_pointers_and_when_they_moved(run: Command, folder: Path) -> None:
    (entry,) = lines(run("journal", "topics", "--json").out)
    assert (entry["topic"], entry["partitions"]) == ("orders", 4)
    assert sum(offset + 1 for offset in entry["pointers"].values()) == 4
    heading, row = run("journal", "topics").out.splitlines()
    assert heading.split()[:3] == ["TOPIC", "PARTITIONS", "POINTERS"]
    assert row.split()[:2] == ["orders", "4"]
    assert run("journal", "topics", "--prefix", "x").out == "the store has no topics that begin with 'x'\n"


@pytest.mark.usefixtures("orders")
def test_explain_shows_verdict_winner_deletion_and_replication(run: Command) -> None:
    run("journal", "append", "orders", "order-1", "9", "--expected", "0", "--id", "late")
    run("journal", "append", "orders", "order-1", "9", "--expected", "0", "--id", "first")
    run("journal", "catch-up", "orders")
    heading, *rows, summary = run("journal", "explain", "orders", "order-1").out.splitlines()
    assert heading.split() == ["PARTITION", "OFFSET", "ACTION", "EVENTS", "VERDICT", "WINNER", "ID", "REPLICATED"]
    # Without a condition an id has a suffix of its own in the log.
    assert [re.sub("#[0-9a-f]+-[0-9a-f]+", "#", row).split()[2:] for row in rows] == [
        ["append", "1-2", "counted", "-", "first", "yes"],
        ["append", "3-4", "counted", "-", "second#", "yes"],
        ["delete", "1", "counted", "-", "-", "yes"],
        ["append", "1", "lost", "first", "late", "yes"],
        ["append", "1", "repeated", "first", "first", "yes"],
    ]
    assert summary.startswith("the journal is at 4, deleted through 1, life ")
    assert summary.endswith("; 0 of 5 actions are not replicated")
    entries = lines(run("journal", "explain", "orders", "order-1", "--json").out)
    assert [(entry["kind"], entry["counted"], entry["winner"]) for entry in entries[2:4]] == [
        ("delete", True, None),
        ("append", False, "first"),
    ]
    assert run("journal", "explain", "orders", "order-9").out == (
        "the log has no action of journal 'order-9' in 'orders'\n"
    )


@pytest.mark.usefixtures("orders")
def test_deleting_and_purging(run: Command, folder: Path) -> None:
    ran = run("journal", "delete", "orders", "order-1", "--through", "9")
    assert ran.out == "journal 'order-1' is deleted through 4; its last event is 4\n"
    assert run("journal", "read", "orders", "order-1").out == ""
    assert lines(run("journal", "delete", "orders", "order-9", "--through", "1", "--json").out) == [
        {"key": "order-9", "deleted_through": None, "seq_nr": None}
    ]
    ran = run("journal", "purge", "orders", "order-1")
    assert (ran.code, ran.err) == (
        2,
        "cordwood: purging journal 'order-1' deletes its events and snapshots for good: say --yes\n",
    )
    ran = run("journal", "purge", "orders", "order-1", "--yes", "--complete")
    assert ran.out == "purged 'order-1': the store holds nothing of it\n"
    with sqlite3.connect(folder / "store.db") as db:
        assert db.execute("SELECT count(*) FROM journal WHERE id = 'order-1'").fetchone() == (0,)
    db.close()
    ran = run("journal", "purge", "orders", "order-1", "--yes")
    assert ran.out == "there is no journal 'order-1' in 'orders': nothing was purged\n"
    assert run("journal", "explain", "orders", "order-1").out.splitlines()[-1].startswith("there is no journal now; ")
    assert lines(run("journal", "append", "orders", "order-1", "1", "--json").out)[0]["start"] == 1


@pytest.mark.usefixtures("orders")
def test_a_closed_key_is_shown_skipped_and_open_again(run: Command, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw:
        partition = next(cw.journal("orders", replicate=False).explain("order-2")).partition
        poison = Batch.of([b"?"], keys=[b"order-2"], headers=[[("journal.action", b"{")]])
        (offset,) = cw.log("orders", partition).append(poison)
    assert lines(run("journal", "catch-up", "orders", "--json").out)[0]["dead_letters"] == 1
    ran = run("journal", "read", "orders", "order-2")
    assert (ran.code, f"offset {offset}, cannot be decoded" in ran.err) == (1, True)
    assert "a poison record has closed the key" in run("journal", "explain", "orders", "order-2").out
    heading, row = run("journal", "dead-letters", "orders").out.splitlines()
    assert heading.split()[:3] == ["PARTITION", "OFFSET", "KEY"]
    assert row.split()[:4] == [str(partition), str(offset), "order-2", "-"]
    ran = run("journal", "skip", "orders", "--partition", str(partition), "--offset", str(offset + 1))
    assert (ran.code, "`cordwood journal dead-letters orders` lists them" in ran.err) == (1, True)
    ran = run("journal", "skip", "orders", "--partition", str(partition), "--offset", str(offset))
    assert ran.out == f"skipped orders/{partition}, offset {offset}, of journal 'order-2'\n"
    assert lines(run("journal", "dead-letters", "orders", "--json").out)[0]["skipped"] is not None
    assert lines(run("journal", "read", "orders", "order-2", "--json").out)[0]["payload"] == 2


def test_a_lost_range_is_refused_and_accepted_on_request(run: Command, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw, cw.journal("orders", partitions=1, replicate=False) as journal:
        journal.append("order-1", [Event.json(1)])
        journal.append("order-2", [Event.json(2)])
        cw.log("orders").trim(before=1)
    ran = run("journal", "catch-up", "orders")
    assert (ran.code, "records 0 to 0 were never replicated" in ran.err) == (1, True)
    assert run("journal", "catch-up", "orders", "--accept-loss").out.split()[-4:] == ["1", "1", "1", "0:1"]
    assert run("journal", "dead-letters", "orders").out.splitlines()[1].split()[:2] == ["0", "0-0"]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    "verb",
    [
        "topics",
        "read orders order-1",
        "recover orders order-1",
        "pointer orders order-1",
        "ids orders",
        "explain orders order-1",
        "dead-letters orders",
        "follow orders order-1 --limit 3",
    ],
)
def test_looking_changes_nothing_and_works_next_to_the_writer(run: Command, folder: Path, verb: str) -> None:
    def state() -> dict[str, tuple[int, int]]:
        paths = [path for path in folder.rglob("*") if not path.name.startswith("store.db-")]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}

    with cordwood.sync.connect(folder) as cw, cw.journal("orders") as journal:
        journal.append("order-1", [Event.json(5)])
        journal.catch_up()
        before = state()
        assert run("journal", *verb.split()).code == 0
        assert state() == before


@pytest.mark.usefixtures("orders")
def test_a_missing_topic_or_store_is_named_and_not_made(run: Command, folder: Path, tmp_path: Path) -> None:
    reading = ("read x y", "pointer x y", "ids x", "explain x y")
    for verb in (*reading, "delete x y --through 1", "purge x y --yes", "catch-up x"):
        ran = run("journal", *verb.split())
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == "cordwood: topic 'x' does not exist: `cordwood topics` lists those that do\n"
    ran = run("journal", "read", "orders", "order-1", "--store", f"sqlite:{tmp_path}/other.db")
    assert (ran.code, "there is no store here" in ran.err) == (1, True)
    assert not (tmp_path / "other.db").exists()
    ran = run("journal", "topics", "--url", f"file:{tmp_path}/nowhere")
    assert (ran.code, "`cordwood journal append` makes it" in ran.err) == (1, True)


def test_the_store_is_an_option_a_variable_or_that_of_the_folder(
    run: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"sqlite:{tmp_path}/other.db"
    assert run("journal", "append", "orders", "order-1", "1", "--store", other).code == 0
    assert not (folder / "store.db").exists()
    monkeypatch.setenv(STORE_VARIABLE, other)
    assert "orders" in run("journal", "topics").out
    ran = run("journal", "topics", "--store", f"sqlite:{folder}/store.db")
    assert (ran.code, "there is no store here" in ran.err) == (1, True)
    (tmp_path / "settings").write_text("password=secret\n")
    ran = run("journal", "topics", "--store-config", str(tmp_path / "settings"))
    assert (ran.code, "takes no settings, and config has password" in ran.err) == (2, True)
    monkeypatch.delenv(STORE_VARIABLE)
    ran = run("journal", "topics", "--url", "kafka://localhost:9")
    assert (ran.code, "say --store sqlite:PATH" in ran.err) == (2, True)


def test_a_topic_is_opened_as_it_is_bound(run: Command, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw, cw.journal("shared", single_writer=True, segment_size=5) as journal:
        journal.append("order-1", [Event.json(1)])
    assert lines(run("journal", "append", "shared", "order-1", "2", "--json").out)[0]["start"] == 2
    assert len(lines(run("journal", "read", "shared", "order-1", "--json").out)) == 2
    ran = run("journal", "append", "shared", "order-1", "3", "--expected", "2")
    assert (ran.code, "has a single writer" in ran.err) == (2, True)


def test_an_expiry_is_set_kept_and_cleared(run: Command, folder: Path) -> None:
    def expiry() -> tuple[object, ...]:
        run("journal", "catch-up", "orders")
        with sqlite3.connect(folder / "store.db") as db:
            row: tuple[object, ...] = db.execute("SELECT expire_after IS NOT NULL FROM metajournal").fetchone()
        db.close()
        return row

    append = ("journal", "append", "orders", "order-1", "1")
    run(*append, "--expire-after", "30d")
    assert expiry() == (1,)
    run(*append, "--keep-expiry")
    assert expiry() == (1,)
    run(*append)
    assert expiry() == (0,)


@pytest.mark.processes
def test_a_follower_shows_new_events_and_ends_with_a_purge(start: Start, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw, cw.journal("orders") as journal:
        journal.append("order-1", [Event.json(1)])
        process = start("journal", "follow", "orders", "order-1", "--json")
        assert process.stdout is not None
        for number in (1, 2, 3):
            assert json.loads(process.stdout.readline())["payload"] == number
            journal.append("order-1", [Event.json(number + 1)])
        assert json.loads(process.stdout.readline())["payload"] == 4
        journal.purge("order-1")
        assert process.wait(20) == 0


@pytest.mark.processes
def test_a_follower_is_interrupted_quietly(start: Start, folder: Path) -> None:
    with cordwood.sync.connect(folder) as cw, cw.journal("orders") as journal:
        journal.append("order-1", [Event.json(1)])
        process = start("journal", "follow", "orders", "order-1")
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"SEQ_NR")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == b""

"""The command on Kafka: the same verbs, tables, JSON and errors."""

import json
import secrets
import signal
from pathlib import Path

import pytest

from cordwood.testing.kafka import Broker
from cordwood.testing.servers.ports import free_ports
from tests.cli.conftest import Command, Start


@pytest.fixture
def url(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CORDWOOD_URL", kafka.url)
    return kafka.url


@pytest.fixture
def topic() -> str:
    return f"cli-{secrets.token_hex(6)}"


@pytest.fixture
def events(run: Command, url: str, topic: str) -> str:
    """A topic with two records."""
    assert run("topics", "create", topic).code == 0
    assert run("log", "append", topic, "hello", "world").code == 0
    return topic


def test_topics_are_made_listed_and_deleted(run: Command, url: str, topic: str) -> None:
    made = run("topics", "create", topic, "--partitions", "3", "--retention", "7d", "--json")
    assert (made.code, made.err) == (0, "")
    entry = json.loads(made.out)
    assert (entry["topic"], entry["partitions"], entry["replication"]) == (topic, 3, 1)
    assert entry["retention_seconds"] == 7 * 86400
    assert "page cache" in entry["durability"]
    listed = run("topics", "--prefix", topic)
    heading, row = listed.out.splitlines()
    assert heading.split() == ["TOPIC", "PARTITIONS", "RECORDS", "RETENTION", "DURABILITY"]
    assert row.split()[:3] == [topic, "3", "0"]
    assert run("topics", "delete", topic, "--yes").out == f"deleted {topic}\n"
    assert run("topics", "--prefix", topic).out == f"no topics at {url} begin with {topic!r}\n"


def test_records_are_written_read_and_trimmed(run: Command, events: str) -> None:
    records = [json.loads(line) for line in run("log", "read", events, "--json").out.splitlines()]
    assert [(record["offset"], record["value"]) for record in records] == [(0, "hello"), (1, "world")]
    assert run("log", "trim", events, "--before", "1").code == 0
    bounds = json.loads(run("log", "bounds", events, "--json").out)
    assert (bounds["start"], bounds["stop"]) == (1, 2)
    assert [json.loads(line)["offset"] for line in run("log", "read", events, "--json").out.splitlines()] == [1]


@pytest.mark.usefixtures("url")
def test_more_time_than_librdkafka_gives_a_request(run: Command, topic: str) -> None:
    for verb in ("topics create", "log append", "log read", "log bounds", "log trim", "topics delete"):
        rest = {"log append": ("v",), "log trim": ("--before", "1"), "topics delete": ("--yes",)}.get(verb, ())
        ran = run(*verb.split(), topic, *rest, "--timeout", "365d")
        assert (ran.code, ran.err) == (0, ""), verb


def test_lines_of_a_file_are_appended_in_batches(run: Command, events: str) -> None:
    ran = run("log", "append", events, "--json", stdin=b"\n".join(b"line %d" % number for number in range(3000)))
    assert (ran.code, ran.err) == (0, "")
    assert run("log", "read", events, "--start", "3001").out.splitlines()[-1].endswith("line 2999")


def test_below_the_first_kept_offset(run: Command, events: str) -> None:
    assert run("log", "trim", events, "--before", "1").code == 0
    ran = run("log", "read", events, "--start", "0")
    assert ran.code == 1
    assert ran.err.startswith(f"cordwood: {events}/0")
    assert len(ran.err.splitlines()) == 1


def test_a_topic_that_is_not_there(run: Command, url: str, topic: str) -> None:
    ran = run("log", "read", topic)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"cordwood: topic {topic!r} does not exist: make it with `cordwood topics create {topic}`\n"


def test_a_server_that_is_not_there(run: Command) -> None:
    (port,) = free_ports(1)
    ran = run("topics", "--url", f"kafka://127.0.0.1:{port}", "--timeout", "1s")
    assert (ran.code, ran.out) == (1, "")
    assert f"127.0.0.1:{port}" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_setting_that_is_wrong_and_a_secret_that_is_not_shown(run: Command, kafka: Broker) -> None:
    ran = run("topics", "--url", f"{kafka.url}?sasl.password=s3cret&no.such.setting=1")
    assert ran.code == 2
    assert "no.such.setting" in ran.err
    assert "s3cret" not in ran.err


@pytest.mark.processes
def test_following_ends_with_an_interrupt(start: Start, run: Command, events: str) -> None:
    follower = start("log", "read", events, "--follow", "--json")
    assert follower.stdout is not None
    assert [json.loads(follower.stdout.readline())["value"] for _ in range(2)] == ["hello", "world"]
    assert run("log", "append", events, "more").code == 0
    assert json.loads(follower.stdout.readline())["value"] == "more"
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=30)
    assert (follower.returncode, out, err) == (130, b"", b"")


@pytest.mark.processes
def test_two_that_append_at_once(start: Start, run: Command, events: str) -> None:
    both = {name: start("log", "append", events, "--json") for name in ("a", "b")}
    lines = {name: [f"{name} {number}" for number in range(20_000)] for name in both}
    # Fed in turns, so that they write at the same time.
    for first in range(0, 20_000, 1000):
        for name, process in both.items():
            assert process.stdin is not None
            process.stdin.write("".join(f"{line}\n" for line in lines[name][first : first + 1000]).encode())
            process.stdin.flush()
    for process in both.values():
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        assert sum(json.loads(line)["records"] for line in out.splitlines()) == 20_000
    records = [json.loads(line) for line in run("log", "read", events, "--json").out.splitlines()]
    assert [record["offset"] for record in records] == list(range(40_002))
    values = [record["value"] for record in records[2:]]
    for name in both:
        assert [value for value in values if value.startswith(name)] == lines[name]


@pytest.mark.processes
def test_two_that_make_a_topic_at_once(start: Start, run: Command, url: str, topic: str) -> None:
    both = [start("topics", "create", topic) for _ in range(2)]
    ended = sorted((process.wait(60), process.communicate()[1].decode()) for process in both)
    assert ended[0] == (0, "")
    code, said = ended[1]
    assert code == 1
    assert said.startswith("cordwood: ")
    assert "exists" in said
    assert len(said.splitlines()) == 1
    assert run("log", "append", topic, "it works").code == 0


@pytest.mark.processes
def test_an_append_that_is_interrupted_has_written_what_it_said(start: Start, run: Command, events: str) -> None:
    appending = start("log", "append", events, "--json")
    assert appending.stdin is not None
    appending.stdin.write(b"line\n" * 5000)
    appending.stdin.flush()
    assert appending.stdout is not None
    said = json.loads(appending.stdout.readline())
    appending.send_signal(signal.SIGINT)
    appending.stdin.close()
    assert appending.wait(30) == 130
    assert json.loads(run("log", "bounds", events, "--json").out)["stop"] >= said["stop"]


def test_settings_come_from_a_file(run: Command, kafka: Broker, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("# who we are\n\nclient.id = the command\nsasl.password=s3cret=2\n")
    assert run("topics", "--url", kafka.url, "--config", str(file)).code == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [("s3cret", "line 1: a setting is NAME=VALUE"), ("a=1\na=s3cret", "line 2: a is set twice"), ("=s3cret", "line 1")],
)
def test_a_file_of_settings_that_is_wrong(run: Command, kafka: Broker, tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "settings"
    file.write_text(text)
    ran = run("topics", "--url", kafka.url, "--config", str(file))
    assert ran.code == 2
    assert why in ran.err
    assert "s3cret" not in ran.err


def test_a_file_of_settings_that_is_not_there(run: Command, kafka: Broker, tmp_path: Path) -> None:
    ran = run("topics", "--url", kafka.url, "--config", str(tmp_path / "none"))
    assert (ran.code, ran.err) == (1, f"cordwood: {tmp_path / 'none'}: No such file or directory\n")


def test_a_file_that_is_no_text_is_no_file_of_settings(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_bytes(b"s3cret=\xff\n")
    ran = run("topics", "--url", "kafka://127.0.0.1:1", "--config", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"cordwood: {file} is not UTF-8: is it the file with the settings?\n"


def test_a_folder_takes_no_settings(run: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("client.id=me")
    ran = run("topics", "--url", f"file:{folder}", "--config", str(file))
    assert ran.code == 2
    assert "only kafka:// takes settings" in ran.err

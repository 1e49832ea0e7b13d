import argparse
from collections.abc import Iterator

import pytest

from cordwood.cli import command_parser
from tests.cli.conftest import Command


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from commands(child, (*path, name))


ALL = list(commands(command_parser()))


def test_these_are_the_commands() -> None:
    assert [" ".join(path) for path in ALL] == [
        "",
        "topics",
        "topics create",
        "topics alter",
        "topics delete",
        "log",
        "log read",
        "log append",
        "log bounds",
        "log trim",
        "wal",
        "wal regions",
        "wal tables",
        "wal read",
        "wal replay",
        "wal write",
        "wal mark",
        "wal clean",
        "journal",
        "journal topics",
        "journal append",
        "journal read",
        "journal follow",
        "journal recover",
        "journal pointer",
        "journal delete",
        "journal purge",
        "journal ids",
        "journal explain",
        "journal dead-letters",
        "journal skip",
        "journal catch-up",
        "pipeline",
        "pipeline replicate",
        "pipeline catch-up",
        "pipeline lag",
        "pipeline dead-letters",
        "pipeline replay",
        "pipeline archive",
        "pipeline copy",
        "pipeline audit",
        "pipeline purge-expired",
        "pipeline script",
        "tour",
    ]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help(run: Command, path: tuple[str, ...]) -> None:
    ran = run(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: {' '.join(('cordwood', *path))} ")
    # Where the logs are and what machines read: the same words everywhere.
    if path not in {(), ("log",), ("wal",), ("journal",), ("pipeline",)}:
        assert ("--url URL" in ran.out) == (path != ("pipeline", "script"))  # which reads no log
        assert "--json" in ran.out


def test_the_help_shows_a_first_walk(run: Command) -> None:
    out = run("--help").out
    for line in ("cordwood tour", "cordwood topics create events", "cordwood log read events", "Exit codes: 0 done"):
        assert line in out


def test_the_help_says_where_logs_can_be(run: Command) -> None:
    for out in (run("--help").out, run("log", "append", "--help").out):
        assert "file:FOLDER" in out
        assert "kafka://HOST:PORT" in out


@pytest.mark.parametrize("arguments", ["log", "log fell", "topics fell", "tour --fell", "tour extra", "log read a b"])
def test_wrong_words_are_exit_2(run: Command, arguments: str) -> None:
    ran = run(*arguments.split())
    assert (ran.code, ran.out) == (2, "")
    assert "usage: cordwood" in ran.err


@pytest.mark.parametrize(
    ("arguments", "missing"), [("log append", "TOPIC"), ("log read", "TOPIC"), ("wal write m", "REGION, TABLE")]
)
def test_only_what_is_needed_is_said_to_be_missing(run: Command, arguments: str, missing: str) -> None:
    assert run(*arguments.split()).err.endswith(f"the following arguments are required: {missing}\n")

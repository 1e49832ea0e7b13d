import re
import shlex
from pathlib import Path

import pytest

from cordwood.cli import command_parser, main
from tests.support.docs.command_page import MARK, PAGE, reference
from tests.support.docs.pages import blocks

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_reference_is_that_of_the_parser() -> None:
    assert TEXT.partition(MARK)[2] == f"\n{reference()}", "run `python -m tests.support.docs.command_page`"


def test_options_that_take_one_of_a_few_words_show_them() -> None:
    for option in ("--codec {cordwood,rfc,horaedb}", "--codec {cordwood,rfc}", "--layout {two-topics,one-topic}"):
        assert f"| `{option}` |" in TEXT


def test_the_lines_of_the_page_are_commands_that_exist() -> None:
    found = re.findall(r"^\$ cordwood (.*?)(?: [|<].*)?$", TEXT, re.MULTILINE)
    assert len(found) > 5
    for line in found:
        command_parser().parse_args(shlex.split(line))


def test_the_commands_of_the_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CORDWOOD_URL", raising=False)
    for command, shown in re.findall(r"^\$ cordwood (.*)\n((?:[^$].*\n)*)", blocks(TEXT, "console")[0], re.MULTILINE):
        assert main(shlex.split(command)) == 0
        # Times are those of this run.
        out = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "2024-05-01 12:00:00.000", capsys.readouterr().out)
        out = re.sub(r'"timestamp":\d+', '"timestamp":1714564800000', out)
        assert out == shown, command

import doctest
from types import ModuleType

import pytest

from cordwood.cli import options, output
from cordwood.cli.log import json_records
from cordwood.cli.output import Table


@pytest.mark.parametrize("module", [options, output, json_records])
def test_the_examples_hold(module: ModuleType) -> None:
    ran = doctest.testmod(module)
    assert ran.attempted > 0
    assert ran.failed == 0


def test_a_table_goes_on_with_the_columns_of_its_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("N", "TEXT"), numbers=("N",))
    table.add([("1", "a"), ("100", "b")])
    table.flush()
    table.add([("7", "later")])
    table.flush()
    table.flush()
    assert capsys.readouterr().out == "  N  TEXT\n  1  a\n100  b\n  7  later\n"


def test_one_long_cell_does_not_make_every_line_long(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("KEY", "TEXT"))
    table.add([("k" * 100_000, "whole"), ("k", "short")])
    table.flush()
    heading, whole, short = capsys.readouterr().out.splitlines()
    assert whole == f"{'k' * 100_000}  whole"
    assert heading.split() == ["KEY", "TEXT"]
    assert short.split() == ["k", "short"]
    assert len(heading) < 300
    assert len(short) < 300


def test_a_line_is_cut_where_the_terminal_ends(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("TEXT",), width=6)
    table.add([("123456",), ("1234567",)])
    table.flush()
    assert capsys.readouterr().out == "TEXT\n123456\n12345…\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("漢字漢", "漢字漢"),
        ("漢字漢字", "漢字…"),
        ("a漢字漢", "a漢字…"),
        ("äöü漢字", "äöü漢…"),
        ("e\u0301" * 6, "e\u0301" * 6),
        ("e\u0301" * 7, "e\u0301" * 5 + "…"),
    ],
)
def test_a_line_is_cut_by_what_its_letters_take(capsys: pytest.CaptureFixture[str], text: str, line: str) -> None:
    table = Table(("TEXT",), width=6)
    table.add([(text,)])
    table.flush()
    assert capsys.readouterr().out == f"TEXT\n{line}\n"


def test_the_last_column_keeps_a_third_of_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("N", "TIME", "KEY", "VALUE"), ("N",), 40, cut="KEY", left_out_if_narrow="TIME")
    table.add([("1", "t" * 23, "k" * 9, "the value is here")])
    table.flush()
    table.add([("2", "t" * 23, "k" * 60, "the value is there")])
    table.flush()
    assert capsys.readouterr().out.splitlines() == [
        "N  KEY        VALUE",
        "1  kkkkkkkkk  the value is here",
        "2  kkkkkkkkkkkkkkkkkkkkk…  the value is…",
    ]


def test_a_table_that_fits_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("N", "TIME", "KEY", "VALUE"), ("N",), 80, cut="KEY", left_out_if_narrow="TIME")
    table.add([("1", "t" * 23, "k" * 9, "value")])
    table.flush()
    assert capsys.readouterr().out.splitlines()[1] == f"1  {'t' * 23}  {'k' * 9}  value"

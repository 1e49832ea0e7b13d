"""Tests have their places: helpers in `tests/support`, unit tests as in `src`. Names and pages fit on a line."""

import re

from tests.support.docs.pages import ROOT

TESTS = ROOT / "tests"
SOURCE = ROOT / "src" / "cordwood"
NAME_CHARACTERS_MAX = 70
LINE_CHARACTERS_MAX = 120


def test_every_helper_is_in_support() -> None:
    modules = {path.relative_to(TESTS) for path in TESTS.rglob("*.py")}
    helpers = {path for path in modules if not path.name.startswith("test_") and path.name != "conftest.py"}
    assert {path.parts[0] for path in helpers} == {"support"}


def test_the_folders_of_unit_tests_mirror_the_source() -> None:
    folders = {path.parent.relative_to(TESTS / "unit") for path in (TESTS / "unit").rglob("test_*.py")}
    strange = {folder for folder in folders if not ((SOURCE / folder).is_dir() or (SOURCE / f"{folder}.py").is_file())}
    assert not strange


def test_the_names_of_tests_fit_on_a_line() -> None:
    files = [*TESTS.rglob("*.py"), *(SOURCE / "testing").rglob("*.py")]
    names = [name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))]
    assert len(names) > 1_000
    assert [name for name in names if len(name) > NAME_CHARACTERS_MAX] == []


def test_the_lines_of_pages_fit_on_a_screen() -> None:
    long: list[str] = []
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        in_code = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            in_code ^= line.lstrip().startswith("```")
            if len(line) > LINE_CHARACTERS_MAX and not in_code and not line.startswith("|"):
                long.append(f"{page.relative_to(ROOT)}:{number}")
    assert not long

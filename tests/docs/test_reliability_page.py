"""docs/reliability.md names tests that exist, and figures of a run in which none failed."""

import re

from tests.support.docs.pages import ROOT, page, rows
from tests.support.docs.reliability import BEGIN, END, PAGE, last_figures, promises


def test_every_promise_has_tests() -> None:
    assert list(promises()) == [str(number) for number in range(1, len(promises()) + 1)]
    for number, tests in promises().items():
        assert tests, number
        assert all((ROOT / path).exists() for path in tests), tests


def test_the_figures_are_of_all_promises_and_none_failed() -> None:
    figures = rows(page(PAGE).partition(BEGIN)[2].partition(END)[0])
    assert [row[0] for row in figures] == list(promises()) == list(last_figures())
    for number, _, passed, failed, _ in figures:
        assert int(passed.replace(",", "")) > 0, number
        assert failed == "0", number


def test_every_finding_has_a_commit_a_date_and_tests_that_exist() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    findings = rows(page(PAGE).partition("## Track record")[2])
    assert len(findings) > 15
    for issue, report, discovered, tests in findings:
        assert re.fullmatch(r"[0-9a-f]{7}, \d{4}-\d\d-\d\d", report), issue
        assert discovered
        names = re.findall(r"`(test_\w+)`", tests)
        assert names, issue
        for name in names:
            assert f"def {name}(" in sources, name

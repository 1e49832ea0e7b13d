"""Runs the tests of each promise, and writes their figures into docs/reliability.md.

python -m tests.support.docs.reliability [--only N] [OPTION OF PYTEST …]        such as --seeds 5 --kills 100 --flips 1
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.support.docs.figures import FILE_VARIABLE
from tests.support.docs.pages import ROOT, page

PAGE = "docs/reliability.md"
BEGIN = "<!-- From here on it is made by `python -m tests.support.docs.reliability`. -->\n"
END = "<!-- To here. -->\n"


def promises() -> dict[str, list[str]]:
    """The tests of each promise, by its number: the links of the page's first table."""
    table = page(PAGE).partition("## Promises")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|.*$", table, re.MULTILINE)
    lines = [line for line in table.splitlines() if re.match(r"\| \d", line)]
    return {number: re.findall(r"\]\(\.\./(tests/[^)]+)\)", line) for number, line in zip(rows, lines, strict=True)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.docs.reliability")
    parser.add_argument("--only", metavar="N", help="the promise to test; the others keep their last figures")
    args, options = parser.parse_known_args()
    wanted = {number: tests for number, tests in promises().items() if args.only in (None, number)}
    paths = sorted({path for tests in wanted.values() for path in tests})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "tests.support.docs.figures",
            *options,
            *paths,
        ]
        ended = subprocess.run(command, cwd=ROOT, env={**os.environ, FILE_VARIABLE: str(file)}).returncode
        by_file: dict[str, dict[str, int]] = json.loads(file.read_text(encoding="utf-8"))
    made = {number: _row(number, tests, by_file) for number, tests in wanted.items()}
    _write({**last_figures(), **made})
    return ended


def last_figures() -> dict[str, str]:
    """The row of each promise in the page's table of figures."""
    section = page(PAGE).partition(BEGIN)[2].partition(END)[0]
    return {found[1]: found[0] for found in re.finditer(r"^\| (\d+) \|.*$", section, re.MULTILINE)}


def _row(number: str, tests: list[str], by_file: dict[str, dict[str, int]]) -> str:
    figures: Counter[str] = Counter()
    for file, counted in by_file.items():
        if file.startswith(tuple(tests)):
            figures.update(counted)
    passed, failed = figures.pop("passed", 0), figures.pop("failed", 0)
    tried = ", ".join(f"{count:,} {what}" for what, count in sorted(figures.items()) if count)
    return f"| {number} | {datetime.now(UTC):%Y-%m-%d} | {passed:,} | {failed:,} | {tried} |"


def _write(rows: dict[str, str]) -> None:
    before, begin, rest = page(PAGE).partition(BEGIN)
    _, end, after = rest.partition(END)
    heading = "| promise | made on | tests that passed | failed | tried by them |\n|---:|---|---:|---:|---|"
    section = "\n".join([heading, *(rows[number] for number in sorted(rows, key=int))])
    (ROOT / PAGE).write_text(f"{before}{begin}\n{section}\n\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""The pages of the project, taken apart: blocks of code, hex dumps and tables."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def octets(block: str) -> bytes:
    """The bytes of a hex dump whose lines are: position, bytes, two blanks or more, a remark."""
    data = b""
    for line in block.splitlines():
        found = re.fullmatch(r" *(\d+)  ((?:[0-9a-f]{2} )*[0-9a-f]{2}) {2,}\S.*", line)
        assert found is not None, line
        assert int(found[1]) == len(data), line
        data += bytes.fromhex(found[2])
    return data


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, headings left out."""
    lines = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    rulers = {at for at, row in enumerate(cells) if set("".join(row)) <= set(":-")}
    return [row for at, row in enumerate(cells) if at not in rulers and at + 1 not in rulers]


def layout(text: str) -> list[tuple[int, int]]:
    """(position, size) of every row of the layout tables."""
    return [(int(row[0]), int(row[1])) for row in rows(text) if row[0].isdigit() and row[1].isdigit()]


def promised(code: str) -> list[str]:
    """The output that a block of code promises: the comments after its `print(…)` calls."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)

"""The reference part of docs/command.md, made of the command's own parser.

python -m tests.support.docs.command_page        writes it anew
"""

import argparse
import textwrap
from collections.abc import Iterator

from cordwood.cli import command_parser
from tests.support.docs.pages import ROOT

LINE_CHARACTERS_MAX = 120
PAGE = ROOT / "docs" / "command.md"
MARK = "<!-- From here on it is made by `python -m tests.support.docs.command_page`. -->\n"


def reference() -> str:
    """Headings, descriptions and tables of every command. Not argparse's help text: that differs between Pythons."""
    return "\n".join(part for path, parser in _commands(command_parser(), ()) for part in _section(path, parser))


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield (*path, name), child
                yield from _commands(child, (*path, name))


def _section(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## `cordwood {' '.join(path)}`\n"
    assert parser.description is not None
    lines = textwrap.wrap(parser.description, LINE_CHARACTERS_MAX, break_long_words=False, break_on_hyphens=False)
    yield "\n".join([*lines, ""])
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)]
    if actions:
        yield "| argument | what |\n|---|---|"
        for action in actions:
            yield f"| `{_written(action)}` | {_needed(action)}{action.help} |"
        yield ""


def _written(action: argparse.Action) -> str:
    values = None if action.choices is None else f"{{{','.join(action.choices)}}}"
    name = str(action.metavar or values or action.dest)
    if not action.option_strings:
        return f"{name} …" if action.nargs == "*" else name
    return action.option_strings[0] if action.nargs == 0 else f"{action.option_strings[0]} {name}"


def _needed(action: argparse.Action) -> str:
    return "needed: " if action.option_strings and action.required else ""


def main() -> None:
    written, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{written}{mark}\n{reference()}", encoding="utf-8")


if __name__ == "__main__":
    main()

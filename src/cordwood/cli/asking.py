"""Questions before a command removes something for good."""

import sys

from cordwood.errors import InvalidInput


def confirm(question: str, why: str) -> bool:
    """Ask on the terminal; without one raise `InvalidInput`, which has the reason and names --yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(f"{why}: say --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}

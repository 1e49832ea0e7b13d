"""The command `cordwood`: it reads the arguments, runs one command, and turns errors into exit codes.

A command group is a module of this package that has

    def add_to(commands: Commands) -> None

which adds its parsers and gives each a `set_defaults(run=...)`, a function from the parsed arguments to the
exit code. Naming the module in `GROUPS` is all that is needed besides. Exit codes: 0 done, 1 failed,
2 wrong use.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TypeAlias

from cordwood._version import __version__
from cordwood.errors import CordwoodError, InvalidInput

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

GROUPS: tuple[str, ...] = ()

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130  # as a shell reports a program that SIGINT ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (default: the process's arguments) and return its exit code."""
    if sys.platform != "linux":
        return _fail(f"it runs on Linux only, and this is {sys.platform}", FAILED)
    parser = _parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:  # argparse has printed the version, the help or what is wrong
        return done.code if isinstance(done.code, int) else WRONG_USE
    if args.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
    return _run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cordwood", description="Durable, ordered logs, embedded in a folder.")
    parser.add_argument("--version", action="version", version=f"cordwood {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for group in GROUPS:
        import_module(group).add_to(commands)
    return parser


def _run(args: argparse.Namespace) -> int:
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except InvalidInput as error:
        return _fail(error, WRONG_USE)
    except CordwoodError as error:
        return _fail(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone: the interpreter's flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _fail(why: object, code: int) -> int:
    print(f"cordwood: {why}", file=sys.stderr)
    return code

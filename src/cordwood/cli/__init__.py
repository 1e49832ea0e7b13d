"""The command `cordwood`: it reads the arguments, runs one command, and turns errors into exit codes.

A command group is a module of this package that has

    def add_to(commands: Commands) -> None

which adds its parsers and gives each a `set_defaults(run=...)`, a function from the parsed arguments to the
exit code. `GROUPS` names the module; nothing else is needed. Exit codes: 0 done, 1 failed,
2 wrong use, 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TextIO, TypeAlias

from cordwood._version import __version__
from cordwood.errors import CordwoodError, InvalidInput

from .output import escape_what_cannot_be_shown, flush, keep_stdout_for_output

Commands: TypeAlias = "argparse._SubParsersAction[Any]"

GROUPS: tuple[str, ...] = (
    "cordwood.cli.topics",
    "cordwood.cli.log",
    "cordwood.cli.wal",
    "cordwood.cli.journal",
    "cordwood.cli.pipeline",
    "cordwood.cli.tour",
)

DONE = 0
FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130  # as a shell reports a program that SIGINT ended

_DESCRIPTION = """\
Durable, ordered logs: embedded in a folder, with nothing to install or to start, or on Kafka.

A topic has one or more partitions, and each partition is a log: records in the order in which they were
appended, each with an offset that counts from 0. An append returns when its records are on the disk, or
on Kafka's servers. One process at a time writes a folder; any number of them read it meanwhile.
"""

_EPILOG = """\
A first walk:

  cordwood tour                                 what it can do, with numbers of this machine

  cordwood topics create events                 make a topic in ./cordwood-data
  cordwood log append events hello world        two records, in one atomic batch
  cordwood log append events < lines.txt        a record a line, in batches
  cordwood log read events                      show them; --follow waits for more, also beside a writer
  cordwood log read events --last 10            the last ten; --from-time -1h: those of the last hour
  cordwood log read events --json | jq .value   one JSON object a line
  cordwood log trim events --before 2           forget the records below offset 2
  cordwood topics                               list the topics

  cordwood wal write metrics 7 42 a b           two entries of table 42 in region 7 of a write-ahead log
  cordwood wal replay metrics 7                 show the entries of all its tables

  cordwood journal append orders order-1 '{"item":"tea"}'    an event of one entity
  cordwood journal read orders order-1                       its events; follow waits for more
  cordwood journal explain orders order-1                    what the log says about it, and why

  cordwood pipeline catch-up orders             replicate the journals up to now, by Spark
  cordwood pipeline replay metrics 7            the region's entries, by Spark; --to FOLDER writes Parquet

Where: --url file:FOLDER or --url kafka://HOST:PORT, else $CORDWOOD_URL, else file:./cordwood-data.
Exit codes: 0 done, 1 failed (one line on stderr says why), 2 wrong use, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None, on_parsed: Callable[[], None] | None = None) -> int:
    """Run the command with `argv` (default: the process's arguments) and return its exit code.

    `on_parsed` is called when all modules are imported and the arguments are read, before any work.
    """
    keep_stdout_for_output()
    if sys.platform != "linux":
        return _fail(f"it runs on Linux only, and this is {sys.platform}", FAILED)
    escape_what_cannot_be_shown()
    try:
        parser = command_parser()
        args = parser.parse_args(argv)
    except SystemExit as done:  # argparse has printed the version, the help or an error
        return done.code if isinstance(done.code, int) else WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    if args.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
    if on_parsed is not None:
        on_parsed()
    return _run(args)


def command_parser() -> argparse.ArgumentParser:
    """The parser of the whole command; `docs/command.md` is checked against it."""
    parser = argparse.ArgumentParser(
        prog="cordwood",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cordwood {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for group in GROUPS:
        import_module(group).add_to(commands)
    return parser


def _run(args: argparse.Namespace) -> int:
    try:
        code: int = args.run(args)
        flush()
    except InvalidInput as error:
        return _fail(error, WRONG_USE)
    except CordwoodError as error:
        return _fail(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has closed it: that is no failure.
        _drop(sys.stdout)
        return DONE
    except OSError as error:
        # A file that cannot be read, or a full output. The library itself raises CordwoodErrors.
        _drop(sys.stdout)
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", FAILED)
    return code


def _drop(output: TextIO) -> None:
    """Keep the interpreter's flush at exit from complaining again about an output that fails."""
    try:
        output.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def _fail(why: object, code: int) -> int:
    # One line, even if the reason has several.
    print(f"cordwood: {' '.join(str(why).split())}", file=sys.stderr)
    return code

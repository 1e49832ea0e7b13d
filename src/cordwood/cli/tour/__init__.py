"""`cordwood tour`: uses the product as a user would, and describes each step with numbers of this very run.

A chapter is a module that has

    TITLE: str
    async def run(stage: Stage) -> Facts

It does real work on the stage's folder, narrates with `stage.say`, and returns its measurements. If a requirement is
missing on this machine it raises `Missing`, which prints one line, and the tour continues. `CHAPTERS` is their order: a
later one may use the records of an earlier one.
"""

import argparse
import asyncio
import shutil
import signal
import tempfile
import time
from importlib import import_module
from pathlib import Path

from cordwood.cli import DONE, Commands
from cordwood.cli.options import add_json, wants_json
from cordwood.cli.output import print_json
from cordwood.client import connect
from cordwood.errors import CordwoodError, InvalidInput
from cordwood.errors import Timeout as CordwoodTimeout
from cordwood.url import FileUrl, parse_url

from .stage import Missing, Stage, filesystem_of

CHAPTERS = (
    "topic",
    "append",
    "writers",
    "columns",
    "arrow",
    "spark",
    "blocking",
    "follow",
    "crash",
    "trim",
    "wal",
    "journal",
    "pipeline",
)

_TERMINATED = 143  # as a shell reports a program that SIGTERM ended
_CHAPTER_SECONDS_MAX = 120


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "tour",
        help="see what it can do, with numbers of this machine",
        description="Use Cordwood as a program would, in a fresh folder that is removed at the end, and tell of it.",
    )
    add_json(parser)
    parser.add_argument("--keep", action="store_true", help="keep the folder, and say where it is")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--folder", type=Path, metavar="PATH", help="use this new or empty folder, and keep it")
    # Only if given: the tour must never use the folder that $CORDWOOD_URL names.
    where.add_argument("--url", metavar="URL", help="the same as a url, file:PATH")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    given = args.folder if args.url is None else _folder_of(args.url)
    folder = _fresh_folder() if given is None else _empty_folder(given)
    keep = args.keep or given is not None
    try:
        code = asyncio.run(_tour(folder, as_json=wants_json(args)))
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if not wants_json(args):
        print(f"The folder {folder} {'is kept' if keep else 'was removed'}.")
    return code


async def _tour(folder: Path, *, as_json: bool) -> int:
    tour = asyncio.current_task()
    assert tour is not None
    # The same clean-up as for Ctrl-C: it removes the folder, and ends the processes that the tour has started.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, tour.cancel, "SIGTERM")
    began = time.perf_counter()
    stage = Stage(folder, narrating=not as_json)
    stage.say(
        f"A tour of Cordwood, in {folder} ({filesystem_of(folder)}). Every number is measured now, on this machine.",
        indent=0,
    )
    try:
        async with connect(stage.url) as stage.cw:
            for number, name in enumerate(CHAPTERS, 1):
                await _chapter(stage, number, name, as_json)
    except asyncio.CancelledError as error:
        if error.args != ("SIGTERM",):
            raise
        return _TERMINATED
    stage.say(f"\nThat was the tour: {len(CHAPTERS)} chapters in {time.perf_counter() - began:.1f} s.", indent=0)
    return DONE


async def _chapter(stage: Stage, number: int, name: str, as_json: bool) -> None:
    chapter = import_module(f"{__name__}.{name}")
    stage.say(f"\n{number}. {chapter.TITLE}", indent=0)
    began = time.perf_counter()
    entry: dict[str, object] = {"chapter": number, "name": name, "title": chapter.TITLE}
    try:
        async with asyncio.timeout(_CHAPTER_SECONDS_MAX):
            entry |= {"status": "done", "facts": await chapter.run(stage)}
    except Missing as missing:
        stage.say(f"Left out: {missing}")
        entry |= {"status": "missing", "reason": str(missing)}
    except TimeoutError as error:
        if isinstance(error, CordwoodError):
            raise
        raise CordwoodTimeout(f"chapter {number} ({name}) took more than {_CHAPTER_SECONDS_MAX} s") from error
    if as_json:
        print_json({**entry, "seconds": round(time.perf_counter() - began, 3)})


def _folder_of(url: str) -> Path:
    parsed = parse_url(url)
    if not isinstance(parsed, FileUrl):
        raise InvalidInput(f"the tour is of the embedded engine, and {parsed} is no folder: write file:PATH")
    return parsed.path


def _empty_folder(path: Path) -> Path:
    path = path.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInput(f"{path} is no empty folder: the tour never writes among other files")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _fresh_folder() -> Path:
    # /tmp is often in memory, where a sync costs nothing and proves nothing; /var/tmp is meant to survive a reboot.
    try:
        return Path(tempfile.mkdtemp(prefix="cordwood-tour-", dir="/var/tmp"))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="cordwood-tour-"))

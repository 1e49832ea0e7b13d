"""What a chapter of the tour works with: the folder, a connection, a voice, and other processes."""

import asyncio
import os
import random
import shutil
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from cordwood.client import Client
from cordwood.url import FileUrl

Facts: TypeAlias = Mapping[str, object]

TOPIC = "events"

_WIDTH_MIN = 20  # in less no text can be read, and beside an indent there may be nothing left
_WIDTH_MAX = 100
_INDENT = 3
_KILLED_AFTER_SECONDS = (0.5, 1.0)


class Missing(Exception):
    """A chapter's part is not on this machine; the message says what to do about it."""


class Stage:
    """One run of the tour. `cw` is its connection to `data`, open from the first chapter to the last."""

    cw: Client

    def __init__(self, folder: Path, *, narrating: bool) -> None:
        self.folder = folder
        self._narrating = narrating
        self._width = max(_WIDTH_MIN, min(_WIDTH_MAX, shutil.get_terminal_size().columns))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return url_of(self.data)

    def say(self, text: str, *, indent: int = _INDENT) -> None:
        """Tell a person, now: what is being done may take a moment."""
        if self._narrating:
            line = textwrap.fill(
                text.lstrip("\n"), self._width - indent, break_long_words=False, break_on_hyphens=False
            )
            print("\n" * text.startswith("\n") + textwrap.indent(line, " " * indent), flush=True)

    def show(self, code: str) -> None:
        """A line of the program that the chapter runs, as it stands."""
        if self._narrating:
            print(textwrap.indent(code, " " * (_INDENT + 3)), flush=True)

    @asynccontextmanager
    async def process(self, *arguments: str, errors: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
        """Another Python process, which ends with this block at the latest; `errors` is where its stderr goes.

        It has a session of its own: a terminal's Ctrl-C is for the tour, which ends it with all that it has started. If
        the tour itself is killed, the process finds its output pipe closed, and ends by that.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            # Killing one that has ended would take its exit code from asyncio, which says so on stderr.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await _wait_for_end(process)

    async def run_until_killed(self, *arguments: str) -> tuple[list[bytes], int]:
        """Another Python process that is killed (SIGKILL) at a random moment: the lines that it had printed whole, and
        its id."""
        async with self.process(*arguments) as process:
            assert process.stdout is not None
            # Counted from the first line, so that a slow start of Python takes nothing from it.
            lines = [await process.stdout.readline()]
            seconds = random.uniform(*_KILLED_AFTER_SECONDS)
            killing = asyncio.get_running_loop().call_later(seconds, process.kill)
            try:
                async for line in process.stdout:
                    lines.append(line)
            finally:
                killing.cancel()
            await process.wait()
            return [line for line in lines if line.endswith(b"\n")], process.pid


async def _wait_for_end(process: asyncio.subprocess.Process) -> None:
    """Until a process that ends is gone, and its pipe closed.

    A second Ctrl-C waits for that too: asyncio complains on stderr about what is left in a loop that is closed.
    """
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            await process.communicate()
            break
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def url_of(folder: Path) -> str:
    return str(FileUrl(folder))


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk, preallocated space included."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # plogs go in the background
            total += path.stat().st_blocks * 512
    return total


def filesystem_of(path: Path) -> str:
    """The kind of file system that a path is on, in words: whether a sync reaches a disk depends on it."""
    kinds = {}
    for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
        _, mount, kind, *_ = line.split(" ")
        kinds[Path(mount.replace("\\040", " "))] = kind
    kind = next((kinds[place] for place in (path, *path.parents) if place in kinds), "unknown file system")
    if kind in {"tmpfs", "ramfs"}:
        return f"{kind}: memory, so what is said of syncs says little; --folder puts it on a disk"
    return kind

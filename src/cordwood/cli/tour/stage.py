"""The tools of a chapter of the tour: the folder, a connection, its narration, and other processes."""

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

_WIDTH_MIN = 20  # text in fewer columns is not readable, and an indent may leave none
_WIDTH_MAX = 100
_INDENT = 3
_KILLED_AFTER_SECONDS = (0.5, 1.0)


class Missing(Exception):
    """A requirement of a chapter is not on this machine; the message has the remedy."""


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
        """Print a text for people at once: the next step may take a moment."""
        if self._narrating:
            line = textwrap.fill(
                text.lstrip("\n"), self._width - indent, break_long_words=False, break_on_hyphens=False
            )
            print("\n" * text.startswith("\n") + textwrap.indent(line, " " * indent), flush=True)

    def show(self, code: str) -> None:
        """Print a line of the chapter's program, verbatim."""
        if self._narrating:
            print(textwrap.indent(code, " " * (_INDENT + 3)), flush=True)

    @asynccontextmanager
    async def process(self, *arguments: str, errors: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
        """Another Python process, which ends with this block at the latest; `errors` is the target of its stderr.

        It has a session of its own: a terminal's Ctrl-C goes to the tour, which ends this process with its children. If
        the tour itself is killed, the process finds its output pipe closed, and ends.
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
            # A kill of an ended process would take its exit code from asyncio, which complains on stderr.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await _wait_for_end(process)

    async def run_until_killed(self, *arguments: str) -> tuple[list[bytes], int]:
        """Run another Python process, and kill it (SIGKILL) at a random moment; return its complete lines, and its
        id."""
        async with self.process(*arguments) as process:
            assert process.stdout is not None
            # Timed from the first line, so that a slow start of Python does not count.
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
    """Wait until an ending process is gone, and its pipe closed.

    A second Ctrl-C waits for that too: asyncio complains on stderr about a closed loop that still has processes.
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
    """The disk space of the files of a folder, preallocated space included."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # plogs are deleted in the background
            total += path.stat().st_blocks * 512
    return total


def filesystem_of(path: Path) -> str:
    """The kind of file system of a path, in words: it decides whether a sync reaches a disk."""
    kinds = {}
    for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
        _, mount, kind, *_ = line.split(" ")
        kinds[Path(mount.replace("\\040", " "))] = kind
    kind = next((kinds[place] for place in (path, *path.parents) if place in kinds), "unknown file system")
    if kind in {"tmpfs", "ramfs"}:
        return f"{kind}: memory, so the times of syncs mean little; --folder puts it on a disk"
    return kind

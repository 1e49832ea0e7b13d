"""The pipe that a command writes to: a follower ends when its reader does."""

import asyncio
import os
import stat
import sys
from typing import Any


async def while_somebody_reads(printing: "asyncio.Future[None]") -> None:
    """Stop as soon as the reader of the pipe closes it: a follower may have nothing to write for hours."""
    output = _output_pipe()
    if output is None:
        await printing
        return
    loop = asyncio.get_running_loop()
    alone = asyncio.Event()
    tasks: list[asyncio.Future[Any]] = [printing, asyncio.ensure_future(alone.wait())]
    # The writing end of a pipe is never readable; the loop reports it when its reader has closed it.
    loop.add_reader(output, alone.set)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not printing.done():
            raise BrokenPipeError
        printing.result()
    finally:
        loop.remove_reader(output)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _output_pipe() -> int | None:
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):
        return None  # closed, or replaced by an object without a descriptor
    return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None

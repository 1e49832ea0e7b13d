"""Running a command's coroutine, so that Ctrl-C interrupts it at any time."""

import asyncio
import signal
import socket
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """As asyncio.run, but a signal always wakes the loop.

    Python checks for signals between two of its instructions. It handles a signal that comes between the last check and
    the loop's sleep only when the loop wakes. A loop that follows a quiet log may never wake.
    """
    return asyncio.run(_run_woken_by_signals(main))


async def _run_woken_by_signals(main: Coroutine[object, object, T]) -> T:
    loop = asyncio.get_running_loop()
    woken, waking = socket.socketpair()
    with woken, waking:
        for end in (woken, waking):
            end.setblocking(False)
        loop.add_reader(woken, woken.recv, 4096)
        before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        try:
            return await main
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(woken)

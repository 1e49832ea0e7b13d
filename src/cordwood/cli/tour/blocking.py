"""Chapter: the same, for programs without an event loop."""

import asyncio
import threading
import time

from cordwood import sync
from cordwood.errors import CordwoodError
from cordwood.records import Batch

from .stage import TOPIC, Facts, Stage

TITLE = "The blocking twin"

_THREADS = 8
_APPENDS = 100


async def run(stage: Stage) -> Facts:
    stage.say("The same objects without async and await, also for several threads, and beside async code:")
    stage.show(f'with cordwood.sync.connect("{stage.url}") as cw:')
    stage.show(f'    cw.log("{TOPIC}").append(Batch.of([b"hello"]))')
    # On a thread, since this one runs an event loop.
    seconds, seen = await asyncio.to_thread(_use, stage.url)
    count = _THREADS * _APPENDS
    if seen != count:
        raise CordwoodError(f"{count} records were appended by threads, and {seen} read back")
    stage.say(
        f"{_THREADS} threads with {_APPENDS} appends each took {seconds * 1000:.0f} ms, {count / seconds:,.0f} durable"
        f" appends a second; {seen} records were read back in a plain for loop."
    )
    return {"threads": _THREADS, "appends": count, "appends_per_second": round(count / seconds), "read": seen}


def _use(url: str) -> tuple[float, int]:
    """Append from several threads, then read back; return the seconds, and the number of records read."""
    with sync.connect(url) as cw:
        log = cw.log(TOPIC)
        _, stop = log.bounds()
        threads = [threading.Thread(target=_append, args=(log,)) for _ in range(_THREADS)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        return seconds, sum(len(batch) for batch in log.read(start=stop))


def _append(log: sync.Log) -> None:
    for number in range(_APPENDS):
        log.append(Batch.of([b"from a thread, %d" % number]))

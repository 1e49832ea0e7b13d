"""`python -m bench.append_steps`: where the time of one append of 1,000 records goes.

The rows "one at a time" are made of these steps, one behind the other. The table goes to bench/results/append-steps.md.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cordwood
from bench.measure import median
from bench.write import bare_seconds
from cordwood import Batch
from cordwood.log.calls import completion
from cordwood.log.native.env.disk import RealFile
from cordwood.log.native.stream.write_queue import WriteQueue

_APPENDS = 400
_SIZES = (1024, 100)
_STEPS = {
    "made": "make the batch of a list of bytes",
    "woken": "hand it over; the writing thread wakes",
    "prepared": "find its place, and what of it goes to the disk as it is",
    "written": "write (system calls)",
    "begun": "ask the disk to begin (system calls)",
    "checked": "offsets, checksum, header, while the disk is at work",
    "synced": "fdatasync",
    "told": "publish the end; tell the event loop",
    "resumed": "the event loop's thread wakes",
    "returned": "the caller goes on",
}
_RESULT = Path(__file__).parent / "results" / "append-steps.md"

_moments: list[tuple[str, float]] = []


def main() -> None:
    for owner, name in (
        (WriteQueue, "_write_group"),
        (RealFile, "write"),
        (RealFile, "begin_sync"),
        (RealFile, "sync"),
        (completion.LoopNotifier, "__call__"),
        (completion, "complete"),
    ):
        setattr(owner, name, _noted(name, getattr(owner, name)))
    columns = [_column(size) for size in _SIZES]
    lines = [f"| µs | {' | '.join(f'1,000 × {size:,} B' for size in _SIZES)} |", "|---" * (1 + len(_SIZES)) + "|"]
    lines += [f"| {what} | {' | '.join(f'{column[what] * 1e6:.0f}' for column in columns)} |" for what in columns[0]]
    table = "\n".join(lines) + "\n"
    title = "# One append, nothing else under way"
    _RESULT.write_text(f"{title}\n\nMedians of {_APPENDS}, made by `python -m bench.append_steps`.\n\n{table}")
    print(table, end="")


def _column(record_bytes: int) -> dict[str, float]:
    """The seconds of each step of an append of records of that size."""
    records = [os.urandom(record_bytes) for _ in range(1000)]
    # Not in /tmp, which may be memory: a sync must reach a disk.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        appends = asyncio.run(_append(Path(folder) / "log", records))
        bare = bare_seconds(Path(folder) / "bare", b"".join(records), _APPENDS) / _APPENDS
    column = {text: median([steps[name] for steps in appends]) for name, text in _STEPS.items()}
    column["**the whole append**"] = median([sum(steps.values()) for steps in appends])
    column["bare pwrite and fdatasync of the same bytes"] = bare
    return column


def _noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        _moments.append((name, time.perf_counter()))
        try:
            return function(*arguments, **options)
        finally:
            _moments.append((f"{name} ended", time.perf_counter()))

    return noted


async def _append(folder: Path, records: list[bytes]) -> list[dict[str, float]]:
    appends = []
    async with cordwood.connect(folder) as cw:
        await cw.create_topic("bench")
        log = cw.log("bench")
        for _ in range(_APPENDS):
            begun = time.perf_counter()
            batch = Batch.of(records)
            _moments[:] = [("made", time.perf_counter())]
            await log.append(batch)
            appends.append(_steps(begun, [*_moments, ("returned", time.perf_counter())]))
    return appends


def _steps(begun: float, moments: list[tuple[str, float]]) -> dict[str, float]:
    """How long each step took: what ends at a moment is the step that led there."""
    steps = dict.fromkeys(_STEPS, 0.0)
    before, synced, writes = begun, False, 0
    step: str
    for name, moment in moments:
        match name:
            case "made" | "returned":
                step = name
            case "_write_group":
                step = "woken"
            case "write":
                step = "told" if synced else "checked" if writes else "prepared"
            case "write ended":
                step = "told" if synced else "written"
                writes += 1
            case "begin_sync ended":
                step = "begun"
            case "begin_sync" | "sync":
                step = "checked"
            case "sync ended":
                step, synced = "synced", True
            case "complete":
                step = "resumed"
            case "complete ended":
                step = "returned"
            case _:
                step = "told"
        steps[step] += moment - before
        before = moment
    return steps


if __name__ == "__main__":
    main()

"""`cordwood log read`: records as a table, as JSON lines, or their values alone."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from cordwood.cli.connection import partitions_of, topic_info
from cordwood.cli.options import wants_json
from cordwood.cli.output import Table, flush, json_line, json_of, shown, text_of, time_of
from cordwood.cli.output_pipe import while_somebody_reads
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.errors import InvalidInput
from cordwood.log import Log, TopicInfo
from cordwood.records import StoredBatch

_QUEUED_BATCHES = 8


class _Printer(Protocol):
    def print(self, partition: int, batch: StoredBatch) -> None: ...


async def read(cw: Client, args: argparse.Namespace) -> None:
    if args.raw and wants_json(args):
        raise InvalidInput("there are --raw and --json: give one of them")
    info = await topic_info(cw, args.topic)
    partitions = partitions_of(info, args.partition)
    if len(partitions) > 1 and (args.start is not None or args.stop is not None):
        raise InvalidInput(
            f"topic {info.name!r} has {info.partitions} partitions, and each has offsets of its own: say --partition N"
        )
    printer = _printer(info, args)
    printing = asyncio.ensure_future(_print_all([cw.log(info.name, n) for n in partitions], args, printer))
    if args.follow:
        await while_somebody_reads(printing)
    else:
        await printing


def _printer(info: TopicInfo, args: argparse.Namespace) -> _Printer:
    if args.raw:
        return _RawPrinter()
    return _JsonPrinter(info.name) if wants_json(args) else _TablePrinter(info)


async def _print_all(logs: Sequence[Log], args: argparse.Namespace, printer: _Printer) -> None:
    left = sys.maxsize if args.limit is None else args.limit
    # Records that go to a terminal are the progress themselves.
    quiet = sys.stdout is None or sys.stdout.isatty()
    with Progress("read") as progress:
        async for partition, batch in _together(logs, args) if args.follow and len(logs) > 1 else _in_turn(logs, args):
            wanted = batch if len(batch) <= left else batch[:left]
            printer.print(partition, wanted)
            left -= len(wanted)
            if args.follow:
                flush()  # a follower's output must appear at once
            if not quiet:
                progress.add(len(wanted), wanted.values.data_bytes)
            if not left:
                return


async def _in_turn(logs: Sequence[Log], args: argparse.Namespace) -> AsyncIterator[tuple[int, StoredBatch]]:
    for log in logs:
        async with log.read(await _start(log, args), args.stop, args.follow) as reader:
            try:
                async for batch in reader:
                    yield log.partition, batch
            except InvalidInput as error:
                if args.start is None:
                    raise
                _, end = await log.bounds()
                raise InvalidInput(f"--start {args.start} is beyond the end of {log.name}, which is {end}") from error


async def _together(logs: Sequence[Log], args: argparse.Namespace) -> AsyncIterator[tuple[int, StoredBatch]]:
    """Follow several logs: yield batches as they arrive."""
    queue: asyncio.Queue[tuple[int, StoredBatch]] = asyncio.Queue(_QUEUED_BATCHES)

    async def pass_on(log: Log) -> None:
        async with log.read(await _start(log, args), follow=True) as reader:
            async for batch in reader:
                await queue.put((log.partition, batch))

    tasks = [asyncio.ensure_future(pass_on(log)) for log in logs]
    failing = asyncio.ensure_future(_first_failure(tasks))
    try:
        while True:
            getting = asyncio.ensure_future(queue.get())
            await asyncio.wait([getting, failing], return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                failing.result()
                return
            yield getting.result()
    finally:
        for task in (*tasks, failing):
            task.cancel()
        await asyncio.gather(*tasks, failing, return_exceptions=True)


async def _first_failure(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """Wait for the first error: followers have no other end."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _start(log: Log, args: argparse.Namespace) -> int | None:
    if args.from_time is not None:
        return await log.offset_at(args.from_time)
    if args.last is not None:
        first, end = await log.bounds()
        return max(first, (end if args.stop is None else min(args.stop, end)) - int(args.last))
    start: int | None = args.start
    return start


class _RawPrinter:
    """The bytes of each value, and a line end."""

    def print(self, partition: int, batch: StoredBatch) -> None:
        if sys.stdout is not None:  # the parent process may have closed it
            sys.stdout.buffer.write(b"".join([(value or b"") + b"\n" for value in batch.values]))


class _JsonPrinter:
    def __init__(self, topic: str) -> None:
        self._topic = topic

    def print(self, partition: int, batch: StoredBatch) -> None:
        lines = [
            json_line(
                {
                    "topic": self._topic,
                    "partition": partition,
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": json_of(record.key),
                    "value": json_of(record.value),
                    "headers": [[name, json_of(value)] for name, value in record.headers],
                }
            )
            for record in batch
        ]
        print("\n".join(lines))


class _TablePrinter:
    def __init__(self, info: TopicInfo) -> None:
        self._with_partition = info.partitions > 1
        columns = [*(["PARTITION"] if self._with_partition else []), "OFFSET", "TIME (UTC)", "KEY", "VALUE"]
        width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
        self._table = Table(
            columns, numbers=("PARTITION", "OFFSET"), width=width, cut="KEY", left_out_if_narrow="TIME (UTC)"
        )

    def print(self, partition: int, batch: StoredBatch) -> None:
        first = [str(partition)] if self._with_partition else []
        self._table.add(
            [
                (
                    *first,
                    str(record.offset),
                    time_of(record.timestamp),
                    text_of(record.key),
                    text_of(record.value)
                    + "".join(f"  {shown(name)}={text_of(value)}" for name, value in record.headers),
                )
                for record in batch
            ]
        )
        self._table.flush()

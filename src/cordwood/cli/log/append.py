"""`cordwood log append`: records from arguments, files or standard input."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cordwood.cli.connection import partitions_of, topic_info
from cordwood.cli.options import wants_json
from cordwood.cli.output import print_ack, print_table
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.errors import CordwoodError, InvalidInput, TooLarge
from cordwood.log import TopicInfo
from cordwood.records import Batch

from .lines import LineBatches

_RECORD_BYTES = 32  # more than the offsets, validity and timestamp of a record take in a frame


async def append(cw: Client, args: argparse.Namespace) -> None:
    if args.values and args.file:
        raise InvalidInput("there are VALUEs and --file as well: give one of them")
    info = await topic_info(cw, args.topic)
    appender = _Appender(cw, info, args)
    try:
        if args.values:
            await appender.append([os.fsencode(value) for value in args.values])
        elif args.file:
            await _append_files(appender, args.file, info.batch_bytes_max)
        else:
            await _append_lines(appender, info.batch_bytes_max)
    finally:
        # Also after an append that was interrupted or failed half-way: acked records stay.
        appender.report()
    if not appender.acked and not wants_json(args):
        print("nothing was appended")


async def _append_files(appender: "_Appender", paths: Sequence[str], bytes_max: int) -> None:
    for path in paths:
        await appender.append([_content(path, bytes_max)])


def _content(path: str, bytes_max: int) -> bytes:
    with Path(path).open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise TooLarge(f"{path} has more than {bytes_max} bytes, the most one record takes", outcome="not_written")
    return data


async def _append_lines(appender: "_Appender", bytes_max: int) -> None:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: give VALUEs or --file")
    if sys.stdin.isatty():
        print("a record a line; end with Ctrl-D", file=sys.stderr)
    batches = LineBatches(sys.stdin.fileno(), appender.record_bytes, bytes_max)
    with Progress("appended") as progress:
        while lines := await batches.next():
            await appender.append(lines)
            progress.add(len(lines), sum(map(len, lines)))


class _Appender:
    """Appends values with the key and the headers of the command, and counts the acked records."""

    def __init__(self, cw: Client, info: TopicInfo, args: argparse.Namespace) -> None:
        self._cw = cw
        self._topic = info.name
        self._json = wants_json(args)
        self._partition: int | None = None
        if args.partition is not None or info.partitions == 1:
            self._partition = partitions_of(info, args.partition)[0]
        self._key = None if args.key is None else os.fsencode(args.key)
        self._headers = args.header
        self.acked: dict[int, tuple[int, int, int]] = {}

    @property
    def record_bytes(self) -> int:
        """The bytes of a record besides its value."""
        headers = sum(len(name.encode()) + len(value) + 16 for name, value in self._headers)
        return _RECORD_BYTES + len(self._key or b"") + headers

    async def append(self, values: Sequence[bytes]) -> None:
        keys = None if self._key is None else [self._key] * len(values)
        headers = [self._headers] * len(values) if self._headers else None
        batch = Batch.of(values, keys=keys, headers=headers)
        try:
            if self._partition is None:
                self._note(await self._cw.append(self._topic, batch))
            else:
                self._note({self._partition: await self._cw.log(self._topic, self._partition).append(batch)})
        except CordwoodError as error:
            self._note(error.written or {})
            raise

    def report(self) -> None:
        if self._json:
            return  # each ack was printed on arrival
        columns = ("PARTITION", "FIRST", "LAST", "RECORDS")
        rows = [
            (str(partition), str(first), str(last), f"{records:,}")
            for partition, (first, last, records) in sorted(self.acked.items())
        ]
        if rows:
            print_table(columns, rows, numbers=columns)

    def _note(self, written: Mapping[int, Sequence[int]]) -> None:
        for partition, offsets in written.items():
            first, _, records = self.acked.get(partition, (offsets[0], 0, 0))
            self.acked[partition] = first, offsets[-1], records + len(offsets)
            if self._json:
                # The records are counted: on Kafka, records of other writers may come between them.
                place = {"start": offsets[0], "stop": offsets[-1] + 1, "records": len(offsets)}
                print_ack({"topic": self._topic, "partition": partition, **place})

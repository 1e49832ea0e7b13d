"""`cordwood log append`: records from arguments, files or standard input."""

import argparse
import os
import sys
import time
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

from .json_records import LINE_BYTES_A_BYTE, JsonRecord, parse_record
from .lines import LineBatches

INPUTS = ("lines", "json")

_RECORD_BYTES = 32  # more than the offsets, validity and timestamp of a record take in a frame


async def append(cw: Client, args: argparse.Namespace) -> None:
    if args.values and args.file:
        raise InvalidInput("there are VALUEs and --file as well: give one of them")
    if args.input == "json" and (args.values or args.file or args.key is not None or args.header):
        raise InvalidInput("with --input json standard input has the records whole: leave out VALUEs and other options")
    info = await topic_info(cw, args.topic)
    appender = _Appender(cw, info, args)
    try:
        if args.values:
            await appender.append([os.fsencode(value) for value in args.values])
        elif args.file:
            await _append_files(appender, args.file, info.batch_bytes_max)
        elif args.input == "json":
            await _append_json(appender, info.batch_bytes_max)
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
    batches = LineBatches(_input(), appender.record_bytes, bytes_max)
    with Progress("appended") as progress:
        while lines := await batches.next():
            await appender.append(lines)
            progress.add(len(lines), sum(map(len, lines)))


async def _append_json(appender: "_Appender", bytes_max: int) -> None:
    batches = LineBatches(_input(), appender.record_bytes, bytes_max, bytes_max * LINE_BYTES_A_BYTE)
    seen = 0
    with Progress("appended") as progress:
        while lines := await batches.next():
            records: list[JsonRecord] = []
            try:
                for line in lines:
                    seen += 1
                    records.append(appender.checked(parse_record(line, seen), seen))
            finally:
                # Also after a wrong line: those before it are appended, so that its number says where to continue.
                if records:
                    await appender.append_records(records)
            progress.add(len(lines), sum(map(len, lines)))


def _input() -> int:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: give VALUEs or --file")
    if sys.stdin.isatty():
        print("a record a line; end with Ctrl-D", file=sys.stderr)
    return sys.stdin.fileno()


class _Appender:
    """Appends values with the key and the headers of the command, and counts the acked records."""

    def __init__(self, cw: Client, info: TopicInfo, args: argparse.Namespace) -> None:
        self._cw = cw
        self._info = info
        self._topic = info.name
        self._json = wants_json(args)
        self._wanted: int | None = None if args.partition is None else partitions_of(info, args.partition)[0]
        self._partition = 0 if self._wanted is None and info.partitions == 1 else self._wanted
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
        await self._append(Batch.of(values, keys=keys, headers=headers), self._partition)

    def checked(self, record: JsonRecord, number: int) -> JsonRecord:
        """The record of this line, if the topic has its partition, or the command names another."""
        partition, partitions = record.partition, self._info.partitions
        if self._wanted is None and partition is not None and not 0 <= partition < partitions:
            raise InvalidInput(
                f"line {number} is of partition {partition}, and topic {self._topic!r} has 0 to {partitions - 1}:"
                " say --partition N, or leave it out of the lines, and the key decides"
            )
        return record

    async def append_records(self, records: Sequence[JsonRecord]) -> None:
        """Append them to their own partitions, in order, unless the command names one."""
        now = int(time.time() * 1000)
        parts: dict[int | None, list[JsonRecord]] = {}
        for record in records:
            place = record.partition if self._wanted is None else self._wanted
            parts.setdefault(place, []).append(record)
        for place, part in parts.items():
            batch = Batch.of(
                [record.value for record in part],
                keys=[record.key for record in part],
                headers=[record.headers for record in part],
                timestamps=[now if record.timestamp is None else record.timestamp for record in part],
            )
            await self._append(batch, place)

    async def _append(self, batch: Batch, partition: int | None) -> None:
        try:
            if partition is None:
                self._note(await self._cw.append(self._topic, batch))
            else:
                self._note({partition: await self._cw.log(self._topic, partition).append(batch)})
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

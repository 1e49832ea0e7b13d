"""Verbs that change a region, and own it for that moment."""

import argparse
import os
import sys
from collections.abc import AsyncIterator

from cordwood.cli.log.lines import LineBatches
from cordwood.cli.options import wants_json
from cordwood.cli.output import print_ack, print_json, print_table, size_of
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.errors import InvalidInput, NotFound

from .region import open_region, record_bytes_max

_ENTRY_BYTES = 96  # more than an entry takes in a write besides its payload, in any format


async def write(cw: Client, args: argparse.Namespace) -> None:
    writer = _Writer(args)
    async with open_region(cw, args, create=True) as region:
        try:
            if args.payloads:
                writer.note(await region.write(args.table, [os.fsencode(payload) for payload in args.payloads]))
            else:
                async for lines in _lines(await record_bytes_max(cw, args)):
                    writer.note(await region.write(args.table, lines))
        finally:
            writer.report()  # also after a failure: the writes before it are durable


async def mark(cw: Client, args: argparse.Namespace) -> None:
    async with open_region(cw, args) as region:
        if args.table not in region.tables():
            raise NotFound(
                f"region {args.region} of {args.name!r} has no table {args.table}:"
                f" `cordwood wal tables {args.name} {args.region}` lists them"
            )
        await region.mark_deleted(args.table, through=args.through)
        meta = region.tables()[args.table]
    if wants_json(args):
        print_json({"table": args.table, "deleted_through": meta.deleted_through})
    else:
        live = meta.next_sequence - 1 - meta.deleted_through
        print(f"table {args.table} is deleted through {meta.deleted_through}: {live:,} of its entries are live")


async def clean(cw: Client, args: argparse.Namespace) -> None:
    async with open_region(cw, args) as region:
        before = region.stats()
        await region.clean()
        after = region.stats()
    if after.trim_refused is not None:  # no entry is lost by it, but the user asked for a trim
        raise after.trim_refused
    if wants_json(args):
        print_json({"region": args.region, "trimmed_to": after.trimmed_to, "held_by": after.held_by})
        return
    print(f"trimmed to offset {after.trimmed_to}, from {before.trimmed_to}")
    if after.held_by is not None:
        print(f"{size_of(after.bytes)} are left, since table {after.held_by} has live entries there")


async def _lines(bytes_max: int) -> AsyncIterator[list[bytes]]:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: give PAYLOADs")
    if sys.stdin.isatty():
        print("one entry per line; end with Ctrl-D", file=sys.stderr)
    batches = LineBatches(sys.stdin.fileno(), _ENTRY_BYTES, bytes_max)
    with Progress("written") as progress:
        while lines := await batches.next():
            yield lines
            progress.add(len(lines), sum(map(len, lines)))


class _Writer:
    """Counts the acked entries, and reports them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._table: int = args.table
        self._json = wants_json(args)
        self._first = self._last = self._entries = 0

    def note(self, numbers: range) -> None:
        self._first = self._first or numbers[0]
        self._last = numbers[-1]
        self._entries += len(numbers)
        if self._json:
            print_ack({"table": self._table, "start": numbers.start, "stop": numbers.stop})

    def report(self) -> None:
        if self._json:
            return
        if not self._entries:
            print("nothing was written")
            return
        columns = ("TABLE", "FIRST", "LAST", "ENTRIES")
        row = (str(self._table), str(self._first), str(self._last), f"{self._entries:,}")
        print_table(columns, [row], numbers=columns)

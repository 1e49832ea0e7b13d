"""Verbs that only read: they fence no owner, and create nothing."""

import argparse
import shutil
import sys
from typing import TypeAlias

from cordwood.cli.options import wants_json
from cordwood.cli.output import Table, json_line, json_of, print_json, print_table, size_of, text_of
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.wal import RegionReader, TableEntries

from .region import open_region

Rows: TypeAlias = "list[tuple[int, bytes | None]]"
"""Sequence numbers and payloads."""


async def regions(cw: Client, args: argparse.Namespace) -> None:
    found = await cw.wal(args.name, codec=args.codec, layout=args.layout).regions()
    if wants_json(args):
        for region in found:
            print_json({"name": args.name, "region": region})
    elif found:
        print_table(("REGION",), [(str(region),) for region in found], numbers=("REGION",))
    else:
        print(f"write-ahead log {args.name!r} has no regions")


async def tables(cw: Client, args: argparse.Namespace) -> None:
    async with open_region(cw, args) as region:
        found, stats = region.tables(), region.stats()
    if wants_json(args):
        for table, meta in found.items():
            print_json(
                {
                    "table": table,
                    "next_sequence": meta.next_sequence,
                    "deleted_through": meta.deleted_through,
                    "high_watermark": meta.high_watermark,
                    "oldest_offset": min(meta.mapping.values(), default=None),
                }
            )
        return
    columns = ("TABLE", "NEXT", "DELETED THROUGH", "LIVE", "HIGH WATERMARK")
    rows = [
        (
            str(table),
            str(meta.next_sequence),
            str(meta.deleted_through),
            f"{meta.next_sequence - 1 - meta.deleted_through:,}",
            str(meta.high_watermark),
        )
        for table, meta in found.items()
    ]
    print_table(columns, rows, numbers=columns)
    if stats.held_by is not None:
        print(
            f"{size_of(stats.bytes)} from offset {stats.oldest_offset} on, where table {stats.held_by} has live entries"
        )


async def read(cw: Client, args: argparse.Namespace) -> None:
    async with open_region(cw, args) as region:
        await _print_entries(region.read(args.table, args.start, args.stop), args)


async def replay(cw: Client, args: argparse.Namespace) -> None:
    async with open_region(cw, args) as region:
        await _print_entries(region.replay(), args)


async def _print_entries(reader: RegionReader, args: argparse.Namespace) -> None:
    left = sys.maxsize if args.limit is None else args.limit
    printer = _print_json if wants_json(args) else _TablePrinter()
    # Entries that go to a terminal are the progress themselves.
    quiet = sys.stdout is None or sys.stdout.isatty()
    async with reader:
        with Progress("read") as progress:
            async for entries in reader:
                rows = list(zip(entries.sequences, entries.payloads, strict=True))[:left]
                printer(entries, rows)
                left -= len(rows)
                if not quiet:
                    progress.add(len(rows), sum(len(payload or b"") for _, payload in rows))
                if not left:
                    return


def _print_json(entries: TableEntries, rows: Rows) -> None:
    lines = [
        json_line({"table": entries.table, "sequence": sequence, "offset": entries.offset, "payload": json_of(payload)})
        for sequence, payload in rows
    ]
    print("\n".join(lines))


class _TablePrinter:
    def __init__(self) -> None:
        numbers = ("TABLE", "SEQUENCE", "OFFSET")
        width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
        self._table = Table((*numbers, "PAYLOAD"), numbers, width)

    def __call__(self, entries: TableEntries, rows: Rows) -> None:
        self._table.add([(str(entries.table), str(n), str(entries.offset), text_of(payload)) for n, payload in rows])
        self._table.flush()

"""`cordwood wal`: regions of a write-ahead log, their tables and entries."""

import argparse
from collections.abc import Iterable

from cordwood.cli import Commands
from cordwood.cli.checked import region_id, table_id, wal_name
from cordwood.cli.connection import making, reading, removing
from cordwood.cli.options import IntermixedParser, add_common, count, offset
from cordwood.url import Url
from cordwood.wal.formats.by_name import FORMATS
from cordwood.wal.layout import LAYOUTS
from cordwood.wal.names import checked_id

from .change import clean, mark, write
from .show import read, regions, replay, tables

_WRITTEN = [name for name, format_ in FORMATS.items() if not format_.only_reads]
_TAKES = " It opens the region as its owner: an owner in another process is fenced."


def add_to(commands: Commands) -> None:
    wal = commands.add_parser(
        "wal",
        help="regions, tables, write, read, replay, mark, clean",
        description="Look at write-ahead logs, and change them by hand.",
    )
    verbs = wal.add_subparsers(metavar="VERB", title="verbs", required=True, parser_class=IntermixedParser)
    _add_showing(verbs)
    _add_changing(verbs)


def _add_showing(verbs: Commands) -> None:
    parser = verbs.add_parser("regions", help="list regions", description="List the regions of a write-ahead log.")
    _add_name(parser)
    parser.set_defaults(run=reading(regions))
    parser = verbs.add_parser(
        "tables",
        help="show the tables of a region",
        description="Show what a region knows of its tables, and what holds it back.",
    )
    _add_region(parser)
    parser.set_defaults(run=reading(tables))
    parser = verbs.add_parser(
        "read", help="show entries of a table", description="Show entries of one table, without deleted ones."
    )
    _add_table(parser)
    parser.add_argument("--start", type=count, default=1, metavar="N", help="the first sequence number (default: 1)")
    parser.add_argument("--stop", type=count, metavar="N", help="one past the last sequence number (default: the end)")
    _add_limit(parser)
    parser.set_defaults(run=reading(read))
    parser = verbs.add_parser(
        "replay",
        help="show entries of all tables",
        description="Show the entries of a whole region in the order in which they were written, without deleted ones.",
    )
    _add_region(parser)
    _add_limit(parser)
    parser.set_defaults(run=reading(replay))


def _add_changing(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "write",
        help="write entries of a table",
        description="Write each PAYLOAD as an entry, all of them or none; without any, each line of standard input, in"
        " writes as they come. A region that is missing is made." + _TAKES,
    )
    _add_table(parser, _WRITTEN)
    parser.add_argument(
        "payloads", nargs="*", default=[], metavar="PAYLOAD", help="an entry (after -- if it begins with -)"
    )
    parser.set_defaults(run=making(write, _check_table))
    parser = verbs.add_parser(
        "mark", help="mark entries deleted", description="Mark entries of a table as deleted." + _TAKES
    )
    _add_table(parser, _WRITTEN)
    parser.add_argument("--through", type=offset, required=True, metavar="N", help="the last number that is deleted")
    parser.set_defaults(run=removing(mark))
    parser = verbs.add_parser(
        "clean", help="make room", description="Trim a region up to the oldest entry that a table still needs." + _TAKES
    )
    _add_region(parser, _WRITTEN)
    parser.set_defaults(run=removing(clean))


def _check_table(url: Url, args: argparse.Namespace) -> None:
    checked_id("table", args.table, FORMATS[args.codec].table_max)


def _add_name(parser: argparse.ArgumentParser, codecs: Iterable[str] = FORMATS) -> None:
    parser.add_argument("name", type=wal_name, metavar="NAME", help="the write-ahead log")
    add_common(parser)
    parser.add_argument(
        "--codec", choices=codecs, default="cordwood", help="the format of its records (default: cordwood)"
    )
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="two-topics", help="the topics of its regions (default: two-topics)"
    )


def _add_region(parser: argparse.ArgumentParser, codecs: Iterable[str] = FORMATS) -> None:
    _add_name(parser, codecs)
    parser.add_argument("region", type=region_id, metavar="REGION", help="the id of the region")


def _add_table(parser: argparse.ArgumentParser, codecs: Iterable[str] = FORMATS) -> None:
    _add_region(parser, codecs)
    parser.add_argument("table", type=table_id, metavar="TABLE", help="the id of the table")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=count, metavar="N", help="stop after N entries")

"""`cordwood log`: read, append, bounds and trim of one topic's logs."""

import argparse

from cordwood.cli import Commands
from cordwood.cli.checked import topic_name
from cordwood.cli.connection import (
    missing_topic,
    one_partition,
    partitions_of,
    reading,
    removing,
    topic_info,
    writing,
)
from cordwood.cli.options import IntermixedParser, add_common, add_partition, count, header, moment, offset, wants_json
from cordwood.cli.output import print_json, print_table
from cordwood.client import Client
from cordwood.errors import NotFound

from .append import INPUTS, append
from .read import read


def add_to(commands: Commands) -> None:
    log = commands.add_parser(
        "log", help="read, append, bounds, trim", description="Read and write the logs of a topic, its partitions."
    )
    verbs = log.add_subparsers(metavar="VERB", title="verbs", required=True, parser_class=IntermixedParser)
    _add_read(verbs)
    _add_append(verbs)
    _add_bounds(verbs)
    _add_trim(verbs)


def _add_read(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "read",
        help="show records",
        description="Show records, up to the current end. Reading never disturbs a writer, and shows only durable"
        " records.",
    )
    _add_topic(parser)
    add_partition(parser, "all, one after the other; with --follow as they come")
    first = parser.add_mutually_exclusive_group()
    first.add_argument("--start", type=offset, metavar="N", help="the first offset (default: the first that is kept)")
    first.add_argument(
        "--from-time",
        type=moment,
        metavar="TIME",
        help="begin with the first record of this time or later: ISO 8601 (no zone: UTC), or -1h for an hour ago"
        " (s, m, h, d)",
    )
    first.add_argument(
        "--last", type=count, metavar="N", help="begin N offsets before the end, in each partition: the last N records"
    )
    parser.add_argument("--stop", type=offset, metavar="N", help="one past the last offset (default: the end)")
    parser.add_argument("--limit", type=count, metavar="N", help="stop after N records")
    parser.add_argument("--follow", action="store_true", help="at the end, wait for more until interrupted")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="print values alone, as the bytes they are, with a line end after each; null is an empty line",
    )
    parser.set_defaults(run=reading(read))


def _add_append(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "append",
        help="append records",
        description="Append each VALUE as a record, all in one atomic batch; without any, each line of standard input,"
        " in batches as they come. If it fails or is interrupted, it prints the acked records, which stay.",
    )
    _add_topic(parser)
    parser.add_argument(
        "values", nargs="*", default=[], metavar="VALUE", help="a record's value (after -- if it begins with -)"
    )
    parser.add_argument(
        "--file", action="append", default=[], metavar="FILE", help="the whole file as one record; repeatable"
    )
    parser.add_argument(
        "--input",
        choices=INPUTS,
        default="lines",
        help="how to read standard input: a line is a value, or (json) a record as `log read --json` prints it"
        " (default: lines)",
    )
    parser.add_argument("--key", metavar="K", help="the key of every record (default: none)")
    parser.add_argument(
        "--header",
        action="append",
        type=header,
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record; repeatable",
    )
    add_partition(parser, "by key; without a key, one for each batch")
    parser.set_defaults(run=writing(append))


def _add_bounds(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "bounds",
        help="show where logs begin and end",
        description="Show each log's first kept offset, and one past its last.",
    )
    _add_topic(parser)
    add_partition(parser, "all")
    parser.set_defaults(run=reading(_bounds))


def _add_trim(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "trim", help="forget old records", description="Forget every record below an offset, for good."
    )
    _add_topic(parser)
    parser.add_argument("--before", type=offset, required=True, metavar="N", help="the first offset to keep")
    add_partition(parser, "the only one; needed where there are several")
    parser.set_defaults(run=removing(_trim))


def _add_topic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="the topic")
    add_common(parser)


async def _bounds(cw: Client, args: argparse.Namespace) -> None:
    info = await topic_info(cw, args.topic)
    await _print_bounds(cw, args, partitions_of(info, args.partition))


async def _trim(cw: Client, args: argparse.Namespace) -> None:
    try:
        info = await cw.topic(args.topic)
    except NotFound as error:
        raise missing_topic(args.topic) from error
    partition = one_partition(info, args.partition, "each has offsets of its own")
    await cw.log(args.topic, partition).trim(before=args.before)
    await _print_bounds(cw, args, range(partition, partition + 1))


async def _print_bounds(cw: Client, args: argparse.Namespace, partitions: range) -> None:
    bounds = [(partition, *await cw.log(args.topic, partition).bounds()) for partition in partitions]
    if wants_json(args):
        for partition, start, stop in bounds:
            print_json({"topic": args.topic, "partition": partition, "start": start, "stop": stop})
    else:
        columns = ("PARTITION", "START", "STOP", "RECORDS")
        rows = [(str(partition), str(start), str(stop), f"{stop - start:,}") for partition, start, stop in bounds]
        print_table(columns, rows, numbers=columns)

"""`cordwood topics`: list topics; create, alter or delete one."""

import argparse
import asyncio
import sys

from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, NotFound
from cordwood.log import TopicInfo
from cordwood.log.topics import LEFT_OUT, checked_folder_replication
from cordwood.url import FileUrl, Url

from . import FAILED, Commands
from .asking import confirm
from .checked import (
    partitions,
    retention,
    retention_bytes,
    retention_bytes_or_none,
    retention_or_none,
    topic_name,
)
from .connection import making, missing_topic, reading, removing
from .options import add_common, count, wants_json
from .output import print_json, print_table, size_of, span_of

_AT_ONCE = 64


def add_to(commands: Commands) -> None:
    topics = commands.add_parser(
        "topics", help="list topics; make, alter or delete one", description="List the topics."
    )
    add_common(topics)
    topics.add_argument("--prefix", default="", metavar="TEXT", help="only topics whose name begins like this")
    topics.set_defaults(run=reading(_list))
    verbs = topics.add_subparsers(metavar="VERB", title="verbs")
    _add_create(verbs)
    _add_alter(verbs)
    _add_delete(verbs)


def _add_create(verbs: Commands) -> None:
    parser = verbs.add_parser("create", help="make a topic", description="Make a topic.")
    add_common(parser)
    parser.add_argument("name", type=topic_name, metavar="NAME", help="1 to 249 of A-Z a-z 0-9 . _ -")
    parser.add_argument(
        "--partitions",
        type=partitions,
        metavar="N",
        help="how many logs it has (default: 1); this never changes, because keys would move",
    )
    parser.add_argument(
        "--replication",
        type=count,
        metavar="N",
        help="how many copies of it a cluster keeps (default: 3, or as many as it has servers; a folder: 1)",
    )
    parser.add_argument(
        "--retention",
        type=retention,
        metavar="SPAN",
        help="how long records are kept at least, as in 7d (default: ever)",
    )
    parser.add_argument(
        "--retention-bytes",
        type=retention_bytes,
        metavar="SIZE",
        help="how much of each partition is kept at least, as in 10GiB (default: all)",
    )
    parser.add_argument(
        "--exist-ok",
        action="store_true",
        help="a topic that exists already is fine if it is as the options say, and stays as it is",
    )
    parser.set_defaults(run=making(_create, _check_replication))


def _add_alter(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "alter",
        help="change how long a topic keeps its records",
        description="Change the limits of a topic. A limit that is not named stays as it is.",
    )
    add_common(parser)
    parser.add_argument("name", type=topic_name, metavar="NAME", help="the topic")
    parser.add_argument(
        "--retention",
        type=retention_or_none,
        default=LEFT_OUT,
        metavar="SPAN",
        help="how long records are kept at least, as in 7d; none: ever",
    )
    parser.add_argument(
        "--retention-bytes",
        type=retention_bytes_or_none,
        default=LEFT_OUT,
        metavar="SIZE",
        help="how much of each partition is kept at least, as in 10GiB; none: all",
    )
    parser.set_defaults(run=_alter)


def _add_delete(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "delete", help="delete a topic and all its records", description="Delete a topic and all its records, for good."
    )
    add_common(parser)
    parser.add_argument("name", type=topic_name, metavar="NAME", help="the topic")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where nobody can answer")
    parser.set_defaults(run=_delete)


async def _list(cw: Client, args: argparse.Namespace) -> None:
    infos = [await cw.topic(name) for name in await cw.topics(args.prefix)]
    records = [await _records(cw, info) for info in infos]
    if wants_json(args):
        for info, kept in zip(infos, records, strict=True):
            print_json({**_entry(info), "records": kept})
    elif infos:
        columns = ("TOPIC", "PARTITIONS", "RECORDS", "RETENTION", "DURABILITY")
        rows = [
            (info.name, str(info.partitions), f"{kept:,}", _retention(info), info.durability)
            for info, kept in zip(infos, records, strict=True)
        ]
        print_table(columns, rows, numbers=("PARTITIONS", "RECORDS"))
    else:
        print(f"no topics at {cw.url}" + (f" begin with {args.prefix!r}" if args.prefix else ""))


async def _records(cw: Client, info: TopicInfo) -> int:
    """The number of kept records of the topic, all partitions together."""
    kept = 0
    for first in range(0, info.partitions, _AT_ONCE):
        logs = [cw.log(info.name, n) for n in range(first, min(first + _AT_ONCE, info.partitions))]
        kept += sum(stop - start for start, stop in await asyncio.gather(*(log.bounds() for log in logs)))
    return kept


def _check_replication(url: Url, args: argparse.Namespace) -> None:
    if isinstance(url, FileUrl):
        checked_folder_replication(args.replication)


async def _create(cw: Client, args: argparse.Namespace) -> None:
    try:
        info = await cw.create_topic(
            args.name,
            partitions=args.partitions,
            replication=args.replication,
            retention=args.retention,
            retention_bytes=args.retention_bytes,
            exist_ok=args.exist_ok,
        )
    except Conflict as error:
        if args.exist_ok:
            raise
        raise Conflict(f"topic {args.name!r} exists already: --exist-ok takes it as it is") from error
    _print_one(info, args)


def _alter(args: argparse.Namespace) -> int:
    # Checked before the command opens the folder and takes its lock.
    if args.retention is LEFT_OUT and args.retention_bytes is LEFT_OUT:
        raise InvalidInput("nothing to change was named: say --retention or --retention-bytes; none removes a limit")
    return removing(_alter_now)(args)


async def _alter_now(cw: Client, args: argparse.Namespace) -> None:
    try:
        info = await cw.alter_topic(args.name, retention=args.retention, retention_bytes=args.retention_bytes)
    except NotFound as error:
        raise missing_topic(args.name) from error
    _print_one(info, args)


def _delete(args: argparse.Namespace) -> int:
    # Asked before the command opens anything: a user who thinks it over holds no lock.
    why = f"deleting topic {args.name!r} deletes its records for good"
    if not args.yes and not confirm(f"delete topic {args.name!r} and all its records?", why):
        print("nothing was deleted", file=sys.stderr)
        return FAILED
    return removing(_delete_now)(args)


async def _delete_now(cw: Client, args: argparse.Namespace) -> None:
    try:
        await cw.delete_topic(args.name)
    except NotFound as error:
        raise missing_topic(args.name) from error
    if wants_json(args):
        print_json({"topic": args.name, "deleted": True})
    else:
        print(f"deleted {args.name}")


def _print_one(info: TopicInfo, args: argparse.Namespace) -> None:
    if wants_json(args):
        print_json(_entry(info))
    else:
        rows = [(info.name, str(info.partitions), _retention(info), info.durability)]
        print_table(("TOPIC", "PARTITIONS", "RETENTION", "DURABILITY"), rows, numbers=("PARTITIONS",))


def _entry(info: TopicInfo) -> dict[str, object]:
    return {
        "topic": info.name,
        "id": info.id,
        "partitions": info.partitions,
        "replication": info.replication,
        "retention_seconds": None if info.retention is None else info.retention.total_seconds(),
        "retention_bytes": info.retention_bytes,
        "durability": info.durability,
        "batch_bytes_max": info.batch_bytes_max,
    }


def _retention(info: TopicInfo) -> str:
    limits = []
    if info.retention is not None:
        limits.append(span_of(info.retention))
    if info.retention_bytes is not None:
        limits.append(size_of(info.retention_bytes))
    return " or ".join(limits) or "until trimmed"

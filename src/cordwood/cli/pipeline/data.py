"""Verbs that move and compare data: archive, copy, audit, purge-expired."""

import argparse
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from cordwood import pipeline
from cordwood.cli import Commands
from cordwood.cli.checked import region_id, topic_name
from cordwood.cli.journal.store import add_store, check_store, store_config_of, store_of
from cordwood.cli.options import add_common, config_of, count, duration, settings_in, url_of, wants_json
from cordwood.cli.output import print_json, print_table
from cordwood.url import parse_url

from .spark import add_spark, check_log, open_session

_TOPIC_HELP = "the topic"


def add_data_verbs(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "archive",
        help="add to an archive of a topic: Parquet files and manifests",
        description="Write the records of a topic that an archive lacks as Parquet, read both sides again, and only"
        " then let the run count. An interrupted run counts nothing: run it again.",
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help=_TOPIC_HELP)
    parser.add_argument("folder", metavar="FOLDER", help="the archive, a path that Spark writes")
    parser.add_argument(
        "--trim",
        action="store_true",
        help="then trim the log: what the archive and the store have, and what is older than --keep",
    )
    parser.add_argument(
        "--keep", type=duration, default=timedelta(days=1), metavar="SPAN", help="with --trim: keep that (default: 1d)"
    )
    _add_common(parser)
    parser.set_defaults(run=archive)
    parser = verbs.add_parser(
        "copy",
        help="copy a topic into a new one, also with other partitions or on another engine",
        description="Copy a topic into a new one, as of its end now. Keys keep their order, and journals their lives.",
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help=_TOPIC_HELP)
    parser.add_argument("to_url", metavar="TO-URL", help="where the new topic is to be: file:FOLDER or kafka://…")
    parser.add_argument("to_topic", type=topic_name, metavar="TO-TOPIC", help="the name of the new topic")
    parser.add_argument("--partitions", type=count, metavar="N", help="of the new topic (default: as many)")
    parser.add_argument("--archive", metavar="FOLDER", help="an archive with the records that the log no longer has")
    parser.add_argument("--to-config", metavar="FILE", help="settings of TO-URL, a line NAME=VALUE each")
    add_common(parser)
    add_spark(parser)
    parser.set_defaults(run=copy)
    _add_audit(verbs)
    parser = verbs.add_parser(
        "purge-expired",
        help="purge the journals whose expiry has come",
        description="Purge the journals whose expiry has come, through yesterday, UTC, or through --on. It finds the"
        " days that no earlier run completed.",
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="the topic of the journals")
    parser.add_argument("--on", type=_day, metavar="DAY", help="through this day, 2026-01-31 (default: yesterday)")
    parser.add_argument("--full", action="store_true", help="scan all journals, instead of the store's index of days")
    _add_common(parser)
    parser.set_defaults(run=purge_expired)


def _add_audit(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "audit",
        help="compare a store with its log, or check a region",
        description="Fold the log of journals again and compare the store: a line for each finding, and none if it is"
        " sound. With --region, check that region of a write-ahead log. Exit code 1 if there is an error.",
    )
    parser.add_argument("topic", metavar="TOPIC", help="the topic of the journals; with --region, the namespace")
    parser.add_argument("--region", type=region_id, metavar="N", help="check this region of the namespace TOPIC")
    parser.add_argument("--archive", metavar="FOLDER", help="an archive with the records that the log no longer has")
    parser.add_argument("--fix", action="store_true", help="rewrite the journals whose whole history is there")
    _add_common(parser)
    parser.set_defaults(run=audit)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    add_store(parser)
    add_spark(parser)


def archive(args: argparse.Namespace) -> int:
    check_log(args)
    store = store_of(args) if args.trim else None
    spark = open_session(args)
    with pipeline.progress(spark, "archive"):
        report = pipeline.archive(
            spark,
            url_of(args),
            args.topic,
            args.folder,
            store=store,
            trim=args.trim,
            keep=args.keep,
            config=config_of(args),
            store_config=store_config_of(args),
        )
    if wants_json(args):
        ranges = {str(partition): list(ends) for partition, ends in report.ranges.items()}
        trimmed = {str(partition): start for partition, start in report.trimmed.items()}
        print_json({"run": report.run, "records": report.records, "ranges": ranges, "trimmed": trimmed})
        return 0
    rows = [
        (str(partition), str(start), str(stop), str(report.trimmed.get(partition, "-")))
        for partition, (start, stop) in sorted(report.ranges.items())
    ]
    rows += [(str(at), "-", "-", str(start)) for at, start in report.trimmed.items() if at not in report.ranges]
    _print(("PARTITION", "FROM", "STOP", "TRIMMED TO"), rows, f"{args.folder} has every record of {args.topic} already")
    return 0


def copy(args: argparse.Namespace) -> int:
    check_log(args)
    parse_url(args.to_url)
    spark = open_session(args)
    with pipeline.progress(spark, "copy"):
        report = pipeline.copy(
            spark,
            url_of(args),
            args.topic,
            args.to_url,
            args.to_topic,
            partitions=args.partitions,
            archive=args.archive,
            config=config_of(args),
            to_config={} if args.to_config is None else settings_in(args.to_config),
        )
    if wants_json(args):
        print_json({"topic": args.to_topic, "records": report.records, "partitions": report.partitions})
    else:
        print(f"copied {report.records:,} records to {args.to_topic}, which has {report.partitions} partitions")
    return 0


def audit(args: argparse.Namespace) -> int:
    check_log(args)
    if args.region is None:
        check_store(parse_url(url_of(args), config_of(args)), args)
    spark = open_session(args)
    with pipeline.progress(spark, "audit"):
        if args.region is None:
            frame = pipeline.audit(
                spark,
                url_of(args),
                args.topic,
                store_of(args),
                archive=args.archive,
                fix=args.fix,
                config=config_of(args),
                store_config=store_config_of(args),
            )
        else:
            frame = pipeline.audit_region(spark, url_of(args), args.topic, region=args.region, config=config_of(args))
        found = [row.asDict(recursive=True) for row in frame.collect()]
    if wants_json(args):
        for row in found:
            print_json(row)
    else:
        _print(("SEVERITY", "WHAT", "PLACE", "KEY", "NUMBERS", "FIXABLE"), [_cells(row) for row in found], "sound")
    return 1 if any(row["severity"] == "error" for row in found) else 0


def purge_expired(args: argparse.Namespace) -> int:
    check_store(parse_url(url_of(args), config_of(args)), args)
    check_log(args)
    spark = open_session(args)
    with pipeline.progress(spark, "purge-expired"):
        counts = pipeline.purge_expired(
            spark,
            url_of(args),
            args.topic,
            store_of(args),
            on=args.on,
            full=args.full,
            config=config_of(args),
            store_config=store_config_of(args),
        )
    if wants_json(args):
        print_json(
            {
                "purged": counts.purged,
                "refused": counts.refused,
                "failed": counts.failed,
                "errors": dict(counts.errors),
            }
        )
    else:
        columns = ("PURGED", "REFUSED", "FAILED")
        print_table(columns, [(f"{counts.purged:,}", f"{counts.refused:,}", f"{counts.failed:,}")], numbers=columns)
        for id, why in counts.errors.items():
            print(f"{id}: {why}")
    return 1 if counts.failed else 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    place = row["place"]
    where = "-" if place is None else "/".join(str(part) for part in place.values() if part is not None)
    return (
        row["severity"],
        row["what"],
        where,
        row["key"] or "-",
        row["numbers"] or "-",
        "yes" if row["fixable"] else "no",
    )


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]], if_none: str) -> None:
    if rows:
        print_table(columns, rows)
    else:
        print(if_none)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day: write it as 2026-01-31") from None

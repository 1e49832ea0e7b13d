"""`cordwood pipeline`: journals replicated, regions replayed, topics archived, copied and audited by Spark."""

import argparse

from cordwood.cli import Commands
from cordwood.cli.checked import region_id, table_id, topic_name, wal_name
from cordwood.cli.journal.store import add_store
from cordwood.cli.options import IntermixedParser, add_common, add_json, count, duration

from .data import add_data_verbs
from .replicating import catch_up, replicate
from .show import dead_letters, lag, replay, script
from .spark import add_spark


def add_to(commands: Commands) -> None:
    pipeline = commands.add_parser(
        "pipeline",
        help="on Spark: replicate, catch-up, lag, replay, archive, copy, audit and more; a script for spark-submit",
        description="Replicate journals to their event store by Spark, see how far that is, replay regions, and"
        " archive, copy, audit and purge. Spark needs Java 17 and the extra cordwood[spark]; lag and dead-letters need"
        " neither.",
    )
    verbs = pipeline.add_subparsers(metavar="VERB", title="verbs", required=True, parser_class=IntermixedParser)
    _add_replicating(verbs)
    _add_looking(verbs)
    _add_replay(verbs)
    add_data_verbs(verbs)
    parser = verbs.add_parser(
        "script",
        help="print the path of the program for spark-submit",
        description="Print the path of a Python program that takes the arguments of `cordwood pipeline`, for"
        " spark-submit: spark-submit --master spark://HOST:7077 $(cordwood pipeline script) replicate orders.",
    )
    add_json(parser)
    parser.set_defaults(run=script)


def _add_replicating(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "replicate",
        help="replicate journals until it is stopped",
        description="Replicate journal topics to their event store, until it is stopped. It begins where the store is."
        " It tries again after a failure, from 0.1 s to 1 min later, but not after one that does not pass: a topic that"
        " was made anew, lost records, the wrong topic, wrong arguments.",
    )
    _add_job(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="where Spark keeps the state of the query (default: a temporary folder, which changes nothing)",
    )
    parser.add_argument(
        "--trigger", type=duration, metavar="SPAN", help="begin a micro-batch this often (default: at once)"
    )
    parser.add_argument(
        "--max-records",
        type=count,
        default=200_000,
        metavar="N",
        help="the most records of a micro-batch (default: 200000)",
    )
    parser.set_defaults(run=replicate)
    parser = verbs.add_parser(
        "catch-up",
        help="replicate journals up to now",
        description="Replicate journal topics up to the ends of their logs, as of now.",
    )
    _add_job(parser)
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="continue after records that were trimmed before they were replicated; dead letters name them",
    )
    parser.set_defaults(run=catch_up)


def _add_looking(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "lag",
        help="show how far the store is behind the logs",
        description="Show, for each partition, how many records the store does not have, and how old the first is.",
    )
    _add_topics(parser)
    add_common(parser)
    add_store(parser)
    parser.set_defaults(run=lag)
    parser = verbs.add_parser(
        "dead-letters",
        help="show poison records and lost ranges",
        description="Show the records that could not be decoded, and ranges of records that were lost.",
    )
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="the topic of the journals")
    add_common(parser)
    add_store(parser)
    parser.set_defaults(run=dead_letters)


def _add_replay(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "replay",
        help="show the entries of a region, or write them as Parquet",
        description="Show the entries of a region of a write-ahead log that count and are not deleted, or write them as"
        " Parquet.",
    )
    parser.add_argument("namespace", type=wal_name, metavar="NAMESPACE", help="the namespace of the regions")
    parser.add_argument("region", type=region_id, metavar="REGION", help="the number of the region")
    parser.add_argument(
        "--table", dest="tables", type=table_id, action="append", metavar="N", help="this table; may be repeated"
    )
    parser.add_argument("--unordered", action="store_true", help="in the order of the log, without a shuffle")
    parser.add_argument("--to", metavar="FOLDER", help="write Parquet into this new folder, partitioned by table")
    parser.add_argument(
        "--limit", type=count, default=20, metavar="N", help="how many entries to show (default: 20; not with --to)"
    )
    add_common(parser)
    add_spark(parser)
    parser.set_defaults(run=replay)


def _add_job(parser: argparse.ArgumentParser) -> None:
    _add_topics(parser)
    parser.add_argument(
        "--max-dead-letters",
        type=count,
        default=1000,
        metavar="N",
        help="fail when more records of a partition cannot be decoded (default: 1000)",
    )
    parser.add_argument(
        "--store-timeout",
        type=duration,
        metavar="SPAN",
        help="how long a task waits for a store that is away (default: 120s)",
    )
    add_common(parser)
    add_store(parser)
    add_spark(parser)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topics", nargs="*", default=[], type=topic_name, metavar="TOPIC", help="the topics of the journals"
    )
    parser.add_argument(
        "--pattern",
        metavar="TEXT",
        help="instead of names: the topics whose whole name this regular expression matches",
    )

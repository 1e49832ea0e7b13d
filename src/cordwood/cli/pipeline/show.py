"""Verbs that show: lag, dead letters, a region, and the path of the script for spark-submit."""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cordwood import pipeline
from cordwood.cli.event_loop import run
from cordwood.cli.journal.opening import open_read_only_store
from cordwood.cli.journal.show import print_letters
from cordwood.cli.journal.store import check_store, store_config_of, store_of
from cordwood.cli.options import config_of, url_of, wants_json
from cordwood.cli.output import json_of, print_json, print_table, text_of
from cordwood.errors import InvalidInput
from cordwood.store import DeadLetter
from cordwood.url import parse_url

from .replicating import topics_of
from .spark import check_log, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def lag(args: argparse.Namespace) -> int:
    topics = topics_of(args)
    check_store(parse_url(url_of(args), config_of(args)), args)
    check_log(args)
    found = pipeline.lag(
        url_of(args), topics, store_of(args), config=config_of(args), store_config=store_config_of(args)
    )
    if wants_json(args):
        for row in found:
            print_json(asdict(row))
        return 0
    columns = ("TOPIC", "PARTITION", "REPLICATED", "END", "RECORDS", "SECONDS")
    rows = [
        (row.topic, str(row.partition), str(row.replicated), str(row.end), f"{row.records:,}", f"{row.seconds:,.1f}")
        for row in found
    ]
    print_table(columns, rows, numbers=columns[1:])
    return 0


def dead_letters(args: argparse.Namespace) -> int:
    async def load() -> list[DeadLetter]:
        async with open_read_only_store(args) as store:
            return await store.dead_letters(args.topic)

    print_letters(run(load()), args.topic, wants_json(args))
    return 0


def replay(args: argparse.Namespace) -> int:
    check_log(args)
    if args.to is not None and os.path.exists(args.to):
        raise InvalidInput(f"--to {args.to} exists: name a new folder")
    spark = open_session(args)
    entries = pipeline.replay(
        spark,
        url_of(args),
        args.namespace,
        region=args.region,
        tables=args.tables,
        ordered=not args.unordered,
        config=config_of(args),
    )
    with pipeline.progress(spark, "replay"):
        if args.to is None:
            _print_entries(entries.limit(args.limit), wants_json(args))
        else:
            entries.write.partitionBy("table").parquet(os.path.abspath(args.to))
    if args.to is not None:
        rows = spark.read.parquet(os.path.abspath(args.to)).count()
        if wants_json(args):
            print_json({"to": args.to, "entries": rows})
        else:
            print(f"wrote {rows:,} entries to {args.to}")
    return 0


def script(args: argparse.Namespace) -> int:
    path = str(Path(__file__).parent / "submit" / "cordwood_pipeline.py")
    if wants_json(args):
        print_json({"script": path})
    else:
        print(path)
    return 0


def _print_entries(entries: "DataFrame", as_json: bool) -> None:
    rows = entries.collect()
    if as_json:
        for row in rows:
            payload = None if row.payload is None else bytes(row.payload)
            print_json(
                {"table": row.table, "sequence": row.sequence, "offset": row.offset, "payload": json_of(payload)}
            )
        return
    columns = ("TABLE", "SEQUENCE", "OFFSET", "PAYLOAD")
    cells = [(str(row.table), str(row.sequence), str(row.offset), text_of(bytes(row.payload))) for row in rows]
    print_table(columns, cells, numbers=columns[:3])

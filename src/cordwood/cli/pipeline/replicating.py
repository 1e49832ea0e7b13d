"""Verbs that replicate: up to now, or until they are stopped."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cordwood import pipeline
from cordwood.cli.journal.store import check_store, store_config_of, store_of
from cordwood.cli.options import config_of, url_of, wants_json
from cordwood.cli.output import flush, print_json, print_table
from cordwood.errors import Conflict, CordwoodError, Corrupt, InvalidInput, NotFound, Trimmed
from cordwood.url import parse_url

from .spark import check_log, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cordwood.pipeline.progressing.metrics import ReplicatorMetrics

PAUSE_SECONDS = (0.1, 60.0)
_REPORT_SECONDS = 10
_LAG_SECONDS = 2.0
_FINAL = (Conflict, Corrupt, InvalidInput, NotFound, Trimmed)
"""Errors that do not pass by themselves: the command ends."""


def topics_of(args: argparse.Namespace) -> str | Sequence[str]:
    """The names, or the pattern."""
    topics: Sequence[str] = args.topics
    pattern: str | None = args.pattern
    if (pattern is None) == (not topics):
        raise InvalidInput("name topics, or give --pattern" + (", not both" if topics else ""))
    return topics if pattern is None else pattern


def replicate(args: argparse.Namespace) -> int:
    topics = topics_of(args)
    _check(args)
    spark = open_session(args)
    numbers = pipeline.metrics(spark)
    options = _options(args)
    if args.trigger is not None:
        options["trigger"] = f"{round(args.trigger.total_seconds() * 1000)} milliseconds"

    def start() -> "StreamingQuery":
        return pipeline.replicate(
            spark,
            url_of(args),
            topics,
            store_of(args),
            checkpoint=args.checkpoint,
            max_records=args.max_records,
            **options,
        )

    def report() -> None:
        if wants_json(args):
            print_json(_numbers(numbers))
            flush()

    run_again_and_again(lambda: _run(spark, start, report), time.sleep, time.monotonic)
    return 0


def run_again_and_again(
    run: Callable[[], CordwoodError], sleep: Callable[[float], None], clock: Callable[[], float]
) -> None:
    """Run until an error comes that does not pass, and raise it. A run of a minute ends a series of failures."""
    pause = PAUSE_SECONDS[0]
    while True:
        begun = clock()
        error = run()
        if isinstance(error, _FINAL) or not error.retryable:
            raise error
        if clock() - begun > PAUSE_SECONDS[1]:
            pause = PAUSE_SECONDS[0]
        print(f"cordwood: {error}; it starts again in {pause:g} s", file=sys.stderr, flush=True)
        sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS[1])


def _run(spark: "SparkSession", start: Callable[[], "StreamingQuery"], report: Callable[[], None]) -> CordwoodError:
    """The error that ends a query."""
    from cordwood.errors import Unavailable

    try:
        query = start()
    except CordwoodError as error:
        return error
    try:
        with pipeline.progress(spark, "replicate"):
            while query.isActive:
                _wait(query)
                report()
    finally:
        query.stop()
    failure = pipeline.failure_of(query)
    return failure or Unavailable(f"Spark ended the query: {query.exception()}", reason="failed")


def _wait(query: "StreamingQuery") -> None:
    from pyspark.errors import PySparkException

    try:
        query.awaitTermination(_REPORT_SECONDS)
    except PySparkException:
        if query.isActive:  # Spark is gone, and not only this query
            raise


def catch_up(args: argparse.Namespace) -> int:
    topics = topics_of(args)
    _check(args)
    spark = open_session(args)
    with _showing_lag(args, topics):
        report = pipeline.catch_up(
            spark, url_of(args), topics, store_of(args), accept_loss=args.accept_loss, **_options(args)
        )
    if wants_json(args):
        print_json(
            {"records": report.records, "events": report.events, "dead_letters": report.dead, "seconds": report.seconds}
        )
        return 0
    columns = ("RECORDS", "EVENTS", "DEAD LETTERS", "SECONDS")
    row = (f"{report.records:,}", f"{report.events:,}", f"{report.dead:,}", f"{report.seconds:.1f}")
    print_table(columns, [row], numbers=columns)
    return 0


def _showing_lag(args: argparse.Namespace, topics: str | Sequence[str]) -> Any:
    """The display of a catch-up: the records that the store does not have, which Spark does not know."""
    from cordwood.pipeline.progressing.display import Display
    from cordwood.pipeline.progressing.status import Status

    def waiting() -> int:
        rows = pipeline.lag(
            url_of(args), topics, store_of(args), config=config_of(args), store_config=store_config_of(args)
        )
        return sum(row.records for row in rows)

    first: list[int] = []

    def look() -> Status:
        lag = waiting()
        first.append(lag)
        del first[1:]
        return Status(rows=max(0, first[0] - lag), lag=lag)

    return Display("catch-up", look, seconds=_LAG_SECONDS if sys.stderr.isatty() else None)


def _check(args: argparse.Namespace) -> None:
    check_store(parse_url(url_of(args), config_of(args)), args)
    check_log(args)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {
        "config": config_of(args),
        "store_config": store_config_of(args),
        "max_dead_letters": args.max_dead_letters,
    }
    if args.store_timeout is not None:
        options["store_timeout"] = args.store_timeout.total_seconds()
    return options


def _numbers(numbers: "ReplicatorMetrics") -> dict[str, object]:
    values = numbers.values()

    def total(name: str) -> int:
        return round(sum(value for each, value in values.items() if each.partition("{")[0] == name))

    return {
        "records": total("replicator_records_total"),
        "lag": total("replicator_lag_records"),
        "batches": total("replicator_batches_total"),
        "failures": total("replicator_failures_total"),
    }

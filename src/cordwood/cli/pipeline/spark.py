"""The Spark session of a command: on this machine, submitted, or remote."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cordwood import _version, pipeline
from cordwood.cli.event_loop import run
from cordwood.cli.options import config_of, timeout_of, url_of
from cordwood.cli.refused import check_listening
from cordwood.errors import InvalidInput, Unavailable
from cordwood.pipeline.session import require_pyspark
from cordwood.url import FileUrl, KafkaUrl, parse_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets it for the program that it runs: the session then has what was submitted."""


def add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", metavar="URL", help="Spark's master (default: local[*]; spark-submit names its own)"
    )
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server, sc://HOST:PORT, instead of a master")
    parser.add_argument(
        "--spark",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.log.level=INFO; may be repeated",
    )


def check_log(args: argparse.Namespace) -> None:
    """Raise if the log is not there, before Spark starts."""
    url = parse_url(url_of(args), config_of(args))
    if isinstance(url, FileUrl) and not url.path.exists():
        raise Unavailable(f"{url.path} does not exist: check --url", reason="unreachable")
    if isinstance(url, KafkaUrl):
        run(check_listening(url, timeout_of(args)))


def open_session(args: argparse.Namespace) -> "SparkSession":
    """The session that the arguments ask for."""
    if args.master and args.remote:
        raise InvalidInput("--master and --remote exclude each other: name one")
    settings = dict(args.spark)
    if _SUBMITTED not in os.environ and not args.remote:
        # A failure is one line of ours. Spark's own report of it has a hundred.
        return pipeline.session(args.master or "local[*]", {"spark.log.level": "OFF", **settings})
    require_pyspark()
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder()
    if args.remote:
        builder = builder.remote(args.remote)
    for name, value in {**({} if args.remote else _shipped()), **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _shipped() -> dict[str, str]:
    """Settings that lead the planning process of a stream to a package that came by `--py-files`.

    Spark 4.2 looks for shipped files in a folder of the job there, which does not have them.
    """
    package = Path(_version.__file__).parents[1]
    if not package.is_file():
        return {}
    from pyspark import SparkConf

    name = "spark.executorEnv.PYTHONPATH"
    given = SparkConf().get(name, "")
    return {name: os.pathsep.join(filter(None, (given, str(package))))}


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting: write NAME=VALUE")
    return name, value

"""The program that the chapter on Spark runs: it reads a topic, as a batch and as a stream, and prints JSON."""

import json
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from cordwood import pipeline

from .spark_process import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    url, topic = sys.argv[1:]
    began = time.perf_counter()
    spark = pipeline.session(settings=SETTINGS)
    start_seconds = time.perf_counter() - began
    frame = pipeline.read(spark, url, topic)
    began = time.perf_counter()
    counts = {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()}
    read_seconds = time.perf_counter() - began
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="cordwood-tour-") as checkpoint:
        streamed = [_stream(spark, url, topic, checkpoint) for _ in range(2)]
    stream_seconds = time.perf_counter() - began
    facts = {
        "rows": sum(counts.values()),
        "columns": frame.columns,
        "start_seconds": round(start_seconds, 2),
        "read_seconds": round(read_seconds, 2),
        "streamed": streamed[0],
        "streamed_again": streamed[1],
        "stream_seconds": round(stream_seconds, 2),
    }
    spark.stop()
    print(json.dumps(facts))


def _stream(spark: "SparkSession", url: str, topic: str, checkpoint: str) -> int:
    """Run a query to the present end of the logs; return the number of its records."""
    frame = pipeline.read_stream(spark, url, topic, startingOffsets="earliest")
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(batch.numInputRows for batch in query.recentProgress)

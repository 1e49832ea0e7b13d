"""What the tour's chapter on Spark runs in another process: reads a topic, and prints what it found as JSON."""

import json
import sys
import time

from cordwood import pipeline


def main() -> None:
    url, topic = sys.argv[1:]
    began = time.perf_counter()
    spark = pipeline.session(settings={"spark.ui.showConsoleProgress": "false"})
    start_seconds = time.perf_counter() - began
    frame = pipeline.read(spark, url, topic)
    began = time.perf_counter()
    counts = {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()}
    read_seconds = time.perf_counter() - began
    facts = {
        "rows": sum(counts.values()),
        "columns": frame.columns,
        "tasks": frame.rdd.getNumPartitions(),
        "start_seconds": round(start_seconds, 2),
        "read_seconds": round(read_seconds, 2),
    }
    spark.stop()
    print(json.dumps(facts))

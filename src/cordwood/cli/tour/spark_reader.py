"""What the tour's chapter on Spark runs in another process: reads a topic, and prints what it found as JSON."""

import json
import sys
import time

from cordwood import pipeline

# What starts in the least time: the tour reads little.
_SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> None:
    url, topic = sys.argv[1:]
    began = time.perf_counter()
    spark = pipeline.session(settings=_SETTINGS)
    start_seconds = time.perf_counter() - began
    frame = pipeline.read(spark, url, topic)
    began = time.perf_counter()
    counts = {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()}
    read_seconds = time.perf_counter() - began
    facts = {
        "rows": sum(counts.values()),
        "columns": frame.columns,
        "start_seconds": round(start_seconds, 2),
        "read_seconds": round(read_seconds, 2),
    }
    spark.stop()
    print(json.dumps(facts))

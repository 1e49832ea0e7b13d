"""Requests a minute, and how long the slow ones took: read from a log by Spark, drawn by matplotlib.

python examples/spark_plot.py PICTURE.svg [FOLDER]

Needs Java 17, and pip install '.[spark]' matplotlib. The log is made up, the same one each time: two hours of
requests, with a release at 09:10 that is taken back at 09:25.
"""

import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta

import matplotlib
from matplotlib import pyplot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import cordwood
from cordwood import Batch, pipeline

BEGAN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MINUTES = 120
SLOW = range(70, 85)


def fill(folder: str) -> None:
    """A record for each request, of the moment when it came; the value is how many milliseconds it took."""
    chance = random.Random(7)
    with cordwood.sync.connect(f"file:{folder}") as cw:
        if "requests" in cw.topics():
            return  # filled by an earlier run
        cw.create_topic("requests", partitions=2)
        for minute in range(MINUTES):
            for partition in range(2):
                count = round(chance.gauss(200 + minute, 12))
                began_ms = (BEGAN + timedelta(minutes=minute)).timestamp() * 1000
                stamps = sorted(int(began_ms + chance.random() * 60_000) for _ in range(count))
                slower = 4 if minute in SLOW else 1
                took = [b"%.1f" % (slower * chance.lognormvariate(3, 0.5)) for _ in stamps]
                cw.log("requests", partition).append(Batch.of(took, timestamps=stamps))


def per_minute(requests: DataFrame) -> DataFrame:
    """How many there were, and what the slowest twentieth of them took at least."""
    took = requests.select(
        F.window("timestamp", "1 minute").start.alias("minute"),
        F.col("value").cast("string").cast("double").alias("ms"),
    )
    counts = took.groupBy("minute").agg(F.count("*").alias("requests"), F.percentile("ms", 0.95).alias("p95_ms"))
    return counts.orderBy("minute").withColumn("minute", F.unix_seconds("minute"))


def draw(per_minute: DataFrame, picture: str) -> None:
    """Spark has made two hours of requests into 120 rows: they fit into any memory."""
    rows = per_minute.collect()
    minutes = [row.minute for row in rows]
    # The same picture, to the byte, for the same rows.
    matplotlib.rcParams["svg.hashsalt"] = "cordwood"
    figure, (above, below) = pyplot.subplots(2, sharex=True, figsize=(8, 4.5), layout="constrained")
    above.plot(minutes, [row.requests for row in rows], color="tab:blue")
    above.set(ylabel="requests a minute", ylim=(0, None))
    below.plot(minutes, [row.p95_ms for row in rows], color="tab:red")
    below.set(ylabel="95th percentile, ms", ylim=(0, None))
    below.set_xticks(minutes[::15], [clock(minute) for minute in minutes[::15]])
    figure.savefig(picture, metadata={"Date": None} if picture.endswith(".svg") else None)
    pyplot.close(figure)
    slowest = max(rows, key=lambda row: row.p95_ms)
    print(f"{sum(row.requests for row in rows)} requests in {len(rows)} minutes; slowest at {clock(slowest.minute)}")


def clock(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M}"


def main(picture: str, folder: str) -> None:
    matplotlib.use("agg")
    fill(folder)
    spark = pipeline.session()
    requests = pipeline.read(spark, f"file:{folder}", "requests")
    draw(per_minute(requests), picture)
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(*sys.argv[1:])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(sys.argv[1] if len(sys.argv) > 1 else "requests.svg", temporary)

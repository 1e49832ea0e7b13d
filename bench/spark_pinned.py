"""Reads a log on Spark on some cores alone: once for each line that it is sent, and prints the seconds it took."""

import os
import sys

from bench.spark import SETTINGS, TOPIC, to_noop
from cordwood import pipeline


def main() -> None:
    data, *cores = sys.argv[1:]
    # Java and Spark's workers, which are started below, inherit it.
    os.sched_setaffinity(0, set(map(int, cores)))
    spark = pipeline.session(f"local[{len(cores)}]", SETTINGS)
    for _ in sys.stdin:
        print(to_noop(pipeline.read(spark, f"file:{data}", TOPIC)), flush=True)
    spark.stop()


main()

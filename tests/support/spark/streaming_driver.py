"""A driver to be killed: it streams the topic `events` of a folder to Parquet for ever.

python -m tests.support.spark.streaming_driver FOLDER PLACE
"""

import sys
from pathlib import Path

from cordwood import pipeline
from tests.support.spark.queries import SETTINGS, Place


def main() -> None:
    folder, place = map(Path, sys.argv[1:])
    spark = pipeline.session("local[2]", SETTINGS)
    frame = pipeline.read_stream(spark, folder, "events", maxOffsetsPerTrigger=40)
    Place(place).start(frame, processingTime="0 seconds").awaitTermination()


main()

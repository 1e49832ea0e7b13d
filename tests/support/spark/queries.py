"""Streaming queries of the tests: to Parquet, which keeps exactly-once visible, and until there is nothing more."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

# Of every session of the tests.
SETTINGS = {
    # Starts in less time; for throughput it would be wrong.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # A micro-batch takes half the time; without the checksums of local files, which a checkpoint should have.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.pollingDelay": "5ms",
}


@dataclass(frozen=True)
class Place:
    """Where a query keeps its checkpoint and its rows: what a restart finds again."""

    folder: Path

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / "out"))
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(**trigger).start()

    def drain(self, frame: DataFrame) -> list[Any]:
        """Run the query to the current end; the progress of each micro-batch."""
        query = self.start(frame, availableNow=True)
        try:
            assert query.awaitTermination(100), "the query did not come to its end"
            return list(query.recentProgress)
        finally:
            query.stop()

    def rows(self, spark: SparkSession) -> list[tuple[str, int, int, bytes]]:
        """What the sink has committed, by topic, partition and offset."""
        columns = spark.read.parquet(str(self.folder / "out")).select("topic", "partition", "offset", "value")
        return sorted((row.topic, row.partition, row.offset, bytes(row.value)) for row in columns.collect())

    def files(self) -> list[list[tuple[int, int]]]:
        """Partition and offset of every row, by the files that tasks wrote, in their order there."""
        tables = [pq.read_table(path, columns=["partition", "offset"]) for path in self.folder.glob("out/*.parquet")]
        return [list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) for table in tables]

    def forget_commit(self, batch: int) -> None:
        """As after a crash before the micro-batch was done: planned, but not known to be committed."""
        (self.folder / "checkpoint" / "commits" / str(batch)).unlink()
        (self.folder / "out" / "_spark_metadata" / str(batch)).unlink(missing_ok=True)


def ends(progress: Any) -> list[int]:
    """The offsets that a micro-batch came to, of the topic `events`."""
    return list(json.loads(progress.sources[0].endOffset)["events"].values())

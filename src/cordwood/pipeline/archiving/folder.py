"""The folder of an archive, as Spark reads and writes it: on this machine, or anywhere that Spark reaches.

    data/run=<run>/topic=…/partition=…/*.parquet      the records of a run
    manifests/<run>/part-….txt                        its manifest, one line

Files of a run without a manifest belong to a run that broke off, or is under way.
"""

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from cordwood.errors import Conflict, InvalidInput, Unavailable, reason_of
from cordwood.pipeline.source.schema import spark_schema

from .coverage import Piece
from .manifest import Manifest, decode_manifest, encode_manifest

COLUMNS = spark_schema(include_headers=True).names
_LEFT_OVER_SECONDS = 7 * 86_400
_GLOB = re.compile(r"[*?\[\]{}\\,]")


class ArchiveFolder:
    """The archive of one topic at a path."""

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str]) -> None:
        self._spark = spark
        self.path, self._local = _absolute(os.fspath(path))

    def check_writable(self) -> None:
        """Create the folder; `Unavailable` if that is not allowed. Only on this machine: elsewhere Spark tells."""
        if self._local is None:
            return
        try:
            self._local.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"{self._local} cannot be written: {error}", reason=reason_of(error)) from error
        if not os.access(self._local, os.W_OK):
            raise Unavailable(
                f"{self._local} cannot be written by this user: change its permissions", reason="permission"
            )

    def manifests(self, topic: str, topic_id: str) -> list[Manifest]:
        """The manifests of all complete runs; `Conflict` if they are of another topic."""
        try:
            lines = self._spark.read.option("recursiveFileLookup", True).text(f"{self.path}/manifests")
            texts = [row.value for row in lines.collect()]
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []
        found = [decode_manifest(text) for text in texts]
        for each in found:
            if (each.topic, each.topic_id) != (topic, topic_id):
                what = f"topic {each.topic!r}" if each.topic != topic else f"an earlier topic {topic!r}"
                raise Conflict(
                    f"{self.path} is the archive of {what} with the id {each.topic_id}, and topic {topic!r} has the id"
                    f" {topic_id}: name another path"
                )
        return found

    def write_run(self, run: str, records: DataFrame) -> None:
        """Write the records of a run. They count once their manifest is there."""
        ordered = records.sortWithinPartitions("topic", "partition", "offset")
        ordered.write.partitionBy("topic", "partition").parquet(self._data(run))

    def write_manifest(self, manifest: Manifest) -> None:
        """Make a run count."""
        line = self._spark.createDataFrame([(encode_manifest(manifest),)], "value string")
        line.coalesce(1).write.text(f"{self.path}/manifests/{manifest.run}")

    def run(self, run: str) -> DataFrame:
        """The records of one run, whether it is complete or not."""
        return self._parquet([run]).select(*COLUMNS)

    def records(self, pieces: Sequence[Piece], manifests: Sequence[Manifest]) -> DataFrame:
        """The records of these pieces."""
        wholes = {each.run: {(part.partition, part.start, part.stop) for part in each.ranges} for each in manifests}
        by_run: dict[str, set[tuple[int, int, int]]] = {}
        for piece in pieces:
            by_run.setdefault(piece.run, set()).add((piece.partition, piece.start, piece.stop))
        frame = self._parquet(list(by_run))
        for run, wanted in by_run.items():
            if wanted != wholes[run]:
                frame = frame.where((F.col("run") != run) | _in_ranges(wanted))
        return frame.select(*COLUMNS)

    def remove_left_overs(self, manifests: Sequence[Manifest]) -> None:
        """Remove the files of runs that broke off a week ago. Only on this machine."""
        if self._local is None:
            return
        complete = {f"run={each.run}" for each in manifests}
        before = time.time() - _LEFT_OVER_SECONDS
        for folder in self._local.glob("data/*"):
            if folder.name not in complete and folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)

    def _parquet(self, runs: Sequence[str]) -> DataFrame:
        base = self._spark.read.schema(_SCHEMA).option("basePath", f"{self.path}/data")
        return base.parquet(*map(self._data, runs))

    def _data(self, run: str) -> str:
        return f"{self.path}/data/run={run}"


_SCHEMA = StructType([*spark_schema(include_headers=True), StructField("run", StringType())])


def _in_ranges(wanted: set[tuple[int, int, int]]) -> Column:
    found = F.lit(False)
    for partition, start, stop in sorted(wanted):
        found |= (F.col("partition") == partition) & (F.col("offset") >= start) & (F.col("offset") < stop)
    return found


def _absolute(path: str) -> tuple[str, Path | None]:
    """The path as Spark takes it, and the folder if it is on this machine."""
    scheme, colon, rest = path.partition(":")
    if not path or _GLOB.search(path):
        raise InvalidInput(f"path is {path!r}: it is not empty, and has none of * ? [ ] {{ }} \\ ,")
    if colon and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        if scheme.lower() != "file":
            return path.rstrip("/"), None
        local = Path(unquote(re.sub(r"^//(?=/)", "", rest))).absolute()
    else:
        local = Path(path).absolute()
    return local.as_uri(), local

"""The data source `cordwood`: what Spark calls, in processes of its own, to read logs.

`options` (what was asked for), `reader` (a batch), `reading` (what reading a task is, and data loss), `plan` (which
records each task reads), `rows` (frames as Arrow batches), `schema` (the columns); below them `logs` (the interface of
an engine), `folder` (which is one) and `engines` (which knows them). Imports pyspark and pyarrow.
"""

from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from cordwood.errors import InvalidInput, Unavailable

from .options import ReadOptions
from .reader import LogsReader
from .schema import spark_schema

__all__ = ["CordwoodSource"]


class CordwoodSource(DataSource):
    """`spark.read.format("cordwood")`: the records of logs as rows, like those of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        """How the format is called."""
        return "cordwood"

    def schema(self) -> StructType:
        """The columns of Spark's own Kafka source."""
        # What `load()` runs: the options are checked as early as it can be.
        return spark_schema(ReadOptions.of(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans a batch read, and what its tasks run."""
        if schema != self.schema():
            raise InvalidInput(
                f"the columns of a log cannot be chosen with schema(…): they are {self.schema().simpleString()}"
            )
        return LogsReader(ReadOptions.of(self.options))

    def streamReader(self, schema: StructType) -> NoReturn:
        """Not yet."""
        raise Unavailable("logs cannot be read as streams on Spark yet: use spark.read")

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not yet."""
        raise Unavailable("logs cannot be written by Spark yet", outcome="not_written")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not yet."""
        raise Unavailable("logs cannot be written by Spark yet", outcome="not_written")

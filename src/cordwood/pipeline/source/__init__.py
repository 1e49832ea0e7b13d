"""The data source `cordwood`: what Spark calls, in processes of its own, to read logs.

`options` (what was asked for), `plan` (which records each task reads), `reader` (planning and reading, with the folder
open), `rows` (frames as Arrow batches), `schema` (the columns). Imports pyspark and pyarrow.
"""

from collections.abc import Mapping
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

    def __init__(self, options: Mapping[str, str]) -> None:
        # Checked here, since this is what `load()` runs.
        self.read_options = ReadOptions.of(options)

    @classmethod
    def name(cls) -> str:
        """How the format is called."""
        return "cordwood"

    def schema(self) -> StructType:
        """The columns of Spark's own Kafka source."""
        return spark_schema(self.read_options.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans a batch read, and what its tasks run."""
        if schema != self.schema():
            raise InvalidInput(
                f"the columns of a log cannot be chosen with schema(…): they are {self.schema().simpleString()}"
            )
        return LogsReader(self.read_options)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Not yet."""
        raise Unavailable("logs cannot be read as streams on Spark yet: use spark.read")

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not yet."""
        raise Unavailable("logs cannot be written by Spark yet", outcome="not_written")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not yet."""
        raise Unavailable("logs cannot be written by Spark yet", outcome="not_written")

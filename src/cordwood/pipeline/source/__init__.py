"""The data source `cordwood`: what Spark calls, in processes of its own, to read logs.

`options` (what was asked for), `plan` (which records each task reads), `reader` (planning and reading, with the folder
open), `rows` (frames as Arrow batches), `schema` (the columns). Imports pyspark and pyarrow.
"""

from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from cordwood.errors import InvalidInput, Unavailable

from ..sink import WriteOptions, batch_writer, stream_writer
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

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What the tasks of a write run, and what commits it."""
        return batch_writer(WriteOptions.of(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The same for one batch of a stream."""
        return stream_writer(WriteOptions.of(self.options), schema, overwrite)

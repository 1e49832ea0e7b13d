"""The data source `cordwood`: Spark calls it, in its own processes, to read (`source`) and to write (`sink`) logs."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from cordwood.errors import InvalidInput

from .sink import WriteOptions, batch_writer, stream_writer
from .source.options import ReadOptions
from .source.reader import LogsReader
from .source.schema import spark_schema
from .source.stream import LogsStream

__all__ = ["CordwoodSource"]


class CordwoodSource(DataSource):
    """`spark.read.format("cordwood")`: the records of logs as rows, like those of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cordwood"

    def schema(self) -> StructType:
        """The columns of Spark's own Kafka source."""
        # `load()` calls this, so the options are checked as early as possible.
        return spark_schema(ReadOptions.of(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The object that plans a batch read, and that its tasks run."""
        return LogsReader(self._read_options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The object that plans the micro-batches of a stream, and that their tasks run."""
        return LogsStream(self._read_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The object that the tasks of a write run, and that commits it."""
        return batch_writer(WriteOptions.of(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The same for one batch of a stream."""
        return stream_writer(WriteOptions.of(self.options), schema, overwrite)

    def _read_options(self, schema: StructType) -> ReadOptions:
        if schema != self.schema():
            raise InvalidInput(
                f"the columns of a log cannot be chosen with schema(…): they are {self.schema().simpleString()}"
            )
        return ReadOptions.of(self.options)

"""Writing logs from Spark: what `df.write` and `df.writeStream` call, in processes of its own.

`options` (what was asked for), `columns` (which columns the rows have), `routing` (which log each row goes to),
`batches` (Arrow's columns as ours), `staging` (what a task does), `writer` (what Spark calls). Imports pyspark and
pyarrow. The files, and the commit that makes them part of the logs, are `cordwood.log.native.staged`.
"""

from .options import WriteOptions
from .writer import batch_writer, stream_writer

__all__ = ["WriteOptions", "batch_writer", "stream_writer"]

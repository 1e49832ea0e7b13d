"""Writing logs from Spark.

`options` checks the user's options, `columns` the columns of the rows, and Spark calls `writer`. `target` is the
interface of an engine; `folder` (with `staging`) and `kafka` implement it. `routing` decides which log each row goes
to, `batches` turns Arrow's columns into ours. Imports pyspark and pyarrow. `cordwood.log.native.folder.staged` has the
staged files, and the commit that makes them part of the logs.
"""

from .options import WriteOptions
from .writer import batch_writer, stream_writer

__all__ = ["WriteOptions", "batch_writer", "stream_writer"]

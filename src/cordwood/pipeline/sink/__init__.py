"""Writing logs from Spark.

`options` has what the user asked for, `columns` the columns of the rows, `writer` is what Spark calls. `target` is the
interface of an engine; `folder` (with `staging`) and `kafka` implement it. `routing` decides which log each row goes
to, `batches` makes Arrow's columns ours. Imports pyspark and pyarrow. Staged files, and the commit that makes them part
of the logs, are `cordwood.log.native.folder.staged`.
"""

from .options import WriteOptions
from .writer import batch_writer, stream_writer

__all__ = ["WriteOptions", "batch_writer", "stream_writer"]

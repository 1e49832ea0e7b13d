"""Writing logs from Spark: what `df.write` and `df.writeStream` call, in processes of its own.

`options` (what was asked for), `columns` (which columns the rows have), `writer` (what Spark calls); below them
`target` (the interface of an engine), `folder` (which is one; `staging` is what its tasks do), `kafka` (the other one)
and `engines` (which knows them); for both `routing` (which log each row goes to) and `batches` (Arrow's columns as
ours). Imports pyspark and pyarrow. Staged files, and the commit that makes them part of the logs, are
`cordwood.log.native.folder.staged`.
"""

from .options import WriteOptions
from .writer import batch_writer, stream_writer

__all__ = ["WriteOptions", "batch_writer", "stream_writer"]

"""A batch read: the driver plans it once, and tasks read it."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from .logs import Task, open_logs
from .options import ReadOptions
from .plan import at_least
from .planning import Losses, check_all_there, kept_range, look, read_task, resolved, selection, starts


class LogsReader(DataSourceReader):
    """One batch read. `partitions` runs once, when Spark plans; `read` in a worker, on a copy of this object."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options.for_batch()

    def partitions(self) -> list[InputPartition]:
        """One partition for each task; the end of every log is fixed here, whatever is appended later."""
        options, losses, tasks = self._options, Losses(self._options), list[Task]()
        assert options.stop is not None
        with open_logs(options.url) as logs:
            now = look(logs, selection(options))
            check_all_there(options, now)
            begin, end = starts(options, logs, now), resolved("endingOffsets", options.stop, now)
            for log, bounds in now.bounds.items():
                start, stop = kept_range(log, begin[log], end[log], bounds, losses)
                if start < stop:
                    tasks += logs.split(
                        Task(log.topic, now.topics[log.topic].id, log.partition, start, stop, stop - start)
                    )
        return [InputPartition(task) for task in at_least(tasks, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        return read_task(self._options, partition)

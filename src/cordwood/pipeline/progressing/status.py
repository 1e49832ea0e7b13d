"""How far Spark's jobs are, by its own store of statuses."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from .positions import batch_of


@dataclass(frozen=True)
class Status:
    """The jobs since the display began."""

    tasks: int = 0
    tasks_done: int = 0
    rows: int = 0
    size: int = 0
    """The bytes that tasks have read, where the source tells Spark; else 0."""
    lag: int | None = None
    """Records that wait for a replicating query; None without one."""


class SparkStatus:
    """The jobs that a session starts from now on. On Spark Connect there are none to see."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._store: Any = None
        self._next = 0
        self._running: dict[int, _Job] = {}
        self._ended = _Job()
        self._batches: dict[str, int] = {}
        """The last micro-batch of each replicating query that was counted."""
        self._records = 0
        self._look_at_queries()
        self._records = 0  # of those that ran before
        try:
            self._store = spark.sparkContext._jsc.sc().statusStore()
        except Exception:  # Spark Connect: no part of a job may depend on its display
            return
        jobs = self._store.jobsList(None)
        self._next = max((jobs.apply(number).jobId() + 1 for number in range(jobs.size())), default=0)

    def look(self) -> Status:
        """The sums as of now."""
        lag = self._look_at_queries()
        jobs = self._ended
        if self._store is not None:
            self._find_jobs()
            for number in list(self._running):
                job = _look_at(self._store, number)
                if job.ended:
                    del self._running[number]
                    self._ended += job
                else:
                    self._running[number] = job
            jobs = sum(self._running.values(), start=self._ended)
        # A row of a replicating query is a range of records.
        rows = jobs.rows if lag is None else self._records
        return Status(jobs.tasks, jobs.tasks_done, rows, jobs.size, lag)

    def _find_jobs(self) -> None:
        while True:
            try:
                self._running[self._next] = _look_at(self._store, self._next)
            except Exception:  # no such job yet
                return
            self._next += 1

    def _look_at_queries(self) -> int | None:
        lags = []
        for query in self._spark.streams.active:
            lag = None
            for progress in query.recentProgress:
                for source in progress.sources:
                    batch = batch_of(source.endOffset, source.latestOffset)
                    if batch is None:
                        continue
                    lag = batch.lag
                    if progress.batchId > self._batches.get(str(query.runId), -1):
                        self._batches[str(query.runId)] = progress.batchId
                        self._records += batch.records
            if lag is not None:
                lags.append(lag)
        return sum(lags) if lags else None


@dataclass(frozen=True)
class _Job:
    """A job, or the sum of several."""

    tasks: int = 0
    tasks_done: int = 0
    rows: int = 0
    size: int = 0
    ended: bool = True

    def __add__(self, other: "_Job") -> "_Job":
        return _Job(
            self.tasks + other.tasks,
            self.tasks_done + other.tasks_done,
            self.rows + other.rows,
            self.size + other.size,
            self.ended and other.ended,
        )


def _look_at(store: Any, number: int) -> _Job:
    job = store.job(number)
    stages = job.stageIds()
    rows = size = 0
    for at in range(stages.size()):
        try:
            stage = store.lastStageAttempt(stages.apply(at))
        except Exception:  # it was skipped
            continue
        rows += stage.inputRecords()
        size += stage.inputBytes()
    ended = job.status().toString() != "RUNNING"
    return _Job(job.numTasks() - job.numSkippedTasks(), job.numCompletedTasks(), rows, size, ended)

"""`pipeline.metrics`: the numbers of a session's replicating queries, as Spark reports them."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from .positions import Batch, batch_of

_HELP = {
    "replicator_queries": ("gauge", "replicating queries that run"),
    "replicator_batches_total": ("counter", "micro-batches"),
    "replicator_batch_seconds": ("gauge", "duration of the last micro-batch"),
    "replicator_failures_total": ("counter", "queries that ended with an error"),
    "replicator_records_total": ("counter", "records that were replicated"),
    "replicator_lag_records": ("gauge", "records that waited after the last micro-batch"),
}


class ReplicatorMetrics(StreamingQueryListener):
    """A listener that keeps the numbers; `pipeline.metrics` adds it to a session.

    Spark calls it in a thread of its own. Each event makes a new table, so that a reader needs no lock.
    """

    def __init__(self) -> None:
        self._values: Mapping[str, float] = dict.fromkeys(list(_HELP)[:4], 0.0)
        self._running: frozenset[str] = frozenset()

    def values(self) -> dict[str, float]:
        """Each number by its name, with topic and partition in braces.

        ```python
        print(metrics.values()['replicator_lag_records{topic="orders",partition="0"}'])
        ```
        """
        return dict(self._values)

    def text(self) -> str:
        """All numbers as Prometheus reads them.

        ```python
        Path("/var/lib/node_exporter/replicator.prom").write_text(metrics.text())
        ```
        """
        values = self._values
        lines = []
        for name, (kind, help) in _HELP.items():
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            lines += [f"{each} {value:g}" for each, value in values.items() if each.partition("{")[0] == name]
        return "\n".join(lines) + "\n"

    def onQueryStarted(self, event: Any) -> None:
        """Its kind is known with its first progress."""

    def onQueryProgress(self, event: Any) -> None:
        """Count a micro-batch."""
        progress = event.progress
        found = [batch for source in progress.sources if (batch := batch_of(source.endOffset, source.latestOffset))]
        if not found:
            return
        self._running |= {str(progress.runId)}
        # A report without a new micro-batch repeats the positions of the last one.
        if not progress.numInputRows:
            self._set(found, batches=0, records=False, seconds=None)
        else:
            self._set(found, batches=1, records=True, seconds=progress.durationMs.get("triggerExecution", 0) / 1000)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing waits."""

    def onQueryTerminated(self, event: Any) -> None:
        """Count a failure."""
        if str(event.runId) not in self._running:
            return
        self._running -= {str(event.runId)}
        values = dict(self._values)
        values["replicator_queries"] = len(self._running)
        values["replicator_failures_total"] += event.exception is not None
        self._values = values

    def _set(self, found: list[Batch], *, batches: int, records: bool, seconds: float | None) -> None:
        values = dict(self._values)
        values["replicator_queries"] = len(self._running)
        values["replicator_batches_total"] += batches
        if seconds is not None:
            values["replicator_batch_seconds"] = seconds
        for batch in found:
            for (topic, partition), (start, stop) in batch.left.items():
                values[_name("replicator_lag_records", topic, partition)] = max(0, stop - start)
            if not records:
                continue
            for (topic, partition), (start, stop) in batch.done.items():
                name = _name("replicator_records_total", topic, partition)
                values[name] = values.get(name, 0) + stop - start
        self._values = values


def _name(name: str, topic: str, partition: int) -> str:
    return f'{name}{{topic="{topic}",partition="{partition}"}}'

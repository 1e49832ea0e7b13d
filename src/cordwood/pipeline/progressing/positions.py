"""The ranges of records in the progress of a replicating query."""

import json
from typing import NamedTuple, TypeAlias

Ranges: TypeAlias = dict[tuple[str, int], tuple[int, int]]
"""By topic and partition: the first offset, and one past the last."""


class Batch(NamedTuple):
    """One micro-batch of a replicating query."""

    done: Ranges
    left: Ranges
    """The records that waited when the micro-batch was planned, without those that it replicated."""

    @property
    def records(self) -> int:
        return count(self.done)

    @property
    def lag(self) -> int:
        return count(self.left)


def batch_of(end: str | None, latest: str | None) -> Batch | None:
    """From the positions that Spark reports of a source; None if it is not a replicating one.

    >>> batch_of('{"replicating":"a","batch":1,"ranges":{"t":{"0":[2,5]}}}', '{"ranges":{"t":{"0":[2,9]}}}').lag
    4
    """
    found = _ranges(end, "replicating")
    if found is None:
        return None
    waiting = _ranges(latest, "ranges") or found
    left = {log: (found[log][1] if log in found else start, stop) for log, (start, stop) in waiting.items()}
    return Batch(found, left)


def count(ranges: Ranges) -> int:
    """How many records that is."""
    return sum(max(0, stop - start) for start, stop in ranges.values())


def _ranges(text: str | None, mark: str) -> Ranges | None:
    try:
        position = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(position, dict) or mark not in position:
        return None
    return {
        (topic, int(partition)): (start, stop)
        for topic, logs in position["ranges"].items()
        for partition, (start, stop) in logs.items()
    }

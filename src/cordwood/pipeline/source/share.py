"""How many records of each log a limited micro-batch takes. No I/O."""

from collections.abc import Mapping
from typing import TypeVar

L = TypeVar("L")


def shares(limit: int, waiting: Mapping[L, int], turn: int) -> dict[L, int]:
    """`limit` records in all, or fewer if fewer wait: in proportion to the waiting records, as Kafka's source, but
    exactly.

    Every log with waiting records gets at least one, so that a busy log never keeps a quiet one waiting. If the limit
    is below the number of logs, they take turns: `turn` decides which log is first.

    >>> shares(10, {"busy": 90, "quiet": 3, "empty": 0}, 0)
    {'busy': 9, 'quiet': 1, 'empty': 0}
    """
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    given = dict.fromkeys(waiting, 0)
    unserved = [log for log, count in waiting.items() if count]
    if limit <= len(unserved):
        first = turn % len(unserved)
        for log in (*unserved[first:], *unserved[:first])[:limit]:
            given[log] = 1
        return given
    rest, rest_total = limit - len(unserved), total - len(unserved)
    for log in unserved:
        given[log] = 1 + rest * (waiting[log] - 1) // rest_total
    # The rest from rounding, less than one a log, goes to the logs with the most records still waiting.
    left = limit - sum(given.values())
    for log in sorted(unserved, key=lambda log: given[log] - waiting[log])[:left]:
        given[log] += 1
    return given

"""Which records each task reads: plogs of a log, merged or cut. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise

from cordwood.log.native.stream.cursor import View

TASK_BYTES = 128 * 1024 * 1024
"""What a task reads at most, where whole plogs allow it: as much as Spark gives one of a file."""


@dataclass(frozen=True)
class Task:
    """The offsets from `start` to below `stop` of one log; `bytes` is about what they take."""

    topic: str
    topic_id: int
    partition: int
    start: int
    stop: int
    bytes: int


def tasks_of(log: Task, view: View, task_bytes: int = TASK_BYTES) -> Iterator[Task]:
    """The range of a log, cut where plogs begin; neighbours are merged up to `task_bytes`."""
    start, size = log.start, 0
    for first, following, plog_bytes in _plogs(view):
        low, high = max(first, log.start), min(following, log.stop)
        if low >= high:
            continue
        part = plog_bytes * (high - low) // (following - first)
        if size and size + part > task_bytes:
            yield _part(log, start, low, size)
            start, size = low, 0
        size += part
    if start < log.stop:
        yield _part(log, start, log.stop, size)


def at_least(tasks: list[Task], count: int) -> list[Task]:
    """The same records in at least `count` tasks, if there are as many: the largest ones are cut into equal parts."""
    parts = [1] * len(tasks)
    # The first of the heap has the most bytes in a part; one of a single record cannot be cut, and counts last.
    heap = [(-task.bytes if task.stop - task.start > 1 else 1, place) for place, task in enumerate(tasks)]
    heapify(heap)
    for _ in range(count - len(tasks)):
        if not heap or heap[0][0] > 0:
            break
        place = heap[0][1]
        parts[place] += 1
        whole = tasks[place]
        divisible = parts[place] < whole.stop - whole.start
        heapreplace(heap, (-(whole.bytes // parts[place]) if divisible else 1, place))
    return [piece for task, pieces in zip(tasks, parts, strict=True) for piece in _equal_parts(task, pieces)]


def _plogs(view: View) -> Iterator[tuple[int, int, int]]:
    """First offset, first offset of the next, and bytes of each plog that may be read."""
    links = view.chain.links
    ends = [*(link.first_offset for link in links[1:]), view.durable.next_offset]
    for link, following in zip(links, ends, strict=True):
        yield link.first_offset, min(following, view.durable.next_offset), view.end_of(link)


def _equal_parts(task: Task, pieces: int) -> Iterator[Task]:
    count = task.stop - task.start
    cuts = [task.start + count * piece // pieces for piece in range(pieces + 1)]
    for start, stop in pairwise(cuts):
        yield _part(task, start, stop, task.bytes // pieces)


def _part(log: Task, start: int, stop: int, size: int) -> Task:
    return Task(log.topic, log.topic_id, log.partition, start, stop, size)

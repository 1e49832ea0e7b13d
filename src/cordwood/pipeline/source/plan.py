"""Dividing records among tasks. No I/O."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heapreplace
from itertools import pairwise

from .logs import Task


def at_least(tasks: list[Task], count: int) -> list[Task]:
    """The same records in at least `count` tasks, if there are as many: the largest tasks are cut into equal parts."""
    parts = [1] * len(tasks)
    # The first of the heap has the largest parts; a task of a single record cannot be cut, and comes last.
    heap = [(-task.weight if task.stop - task.start > 1 else 1, place) for place, task in enumerate(tasks)]
    heapify(heap)
    for _ in range(count - len(tasks)):
        if not heap or heap[0][0] > 0:
            break
        place = heap[0][1]
        parts[place] += 1
        whole = tasks[place]
        divisible = parts[place] < whole.stop - whole.start
        heapreplace(heap, (-(whole.weight // parts[place]) if divisible else 1, place))
    return [piece for task, pieces in zip(tasks, parts, strict=True) for piece in _equal_parts(task, pieces)]


def _equal_parts(task: Task, pieces: int) -> Iterator[Task]:
    count = task.stop - task.start
    cuts = [task.start + count * piece // pieces for piece in range(pieces + 1)]
    for start, stop in pairwise(cuts):
        yield replace(task, start=start, stop=stop, weight=task.weight // pieces)

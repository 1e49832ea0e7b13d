"""A topic as a job sees it when it is planned: its id, its bounds, and what kind of records it has."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cordwood.errors import NotFound
from cordwood.journal.action import ACTION_HEADER
from cordwood.pipeline.places import LogPlace
from cordwood.pipeline.source.logs import Logs, Task, Topic, open_logs
from cordwood.wal.layout import region_of_topic

_SAMPLE = 1000
"""So many records at each end of a log tell whether it has actions of journals."""


@dataclass(frozen=True)
class TopicNow:
    """A topic, its bounds, and its use."""

    name: str
    id: str
    partitions: int
    bounds: Mapping[int, tuple[int, int]]
    is_journal: bool
    """Whether the first or the last records of a partition have an action of a journal."""
    is_region: bool
    """Whether it has a log of a region."""


def look(log: LogPlace, name: str) -> TopicNow:
    """Look at a topic; `NotFound` if it does not exist."""
    with open_logs(log.uncommitted) as logs:
        names = {name}
        place = region_of_topic(name)
        if place is not None:
            names |= {place.data.topic, place.meta.topic}
        there = {topic.name: topic for topic in logs.topics(names.__contains__)}
        if name not in there:
            raise NotFound(f"topic {name!r} does not exist in {log.parsed}")
        topic = there[name]
        bounds = {each.partition: (low, high) for each, (low, high) in logs.bounds([topic]).items()}
        is_region = place is not None and names <= there.keys() and topic.partitions == place.partitions
        is_journal = not is_region and any(
            _has_action(logs, topic, partition, *bounds[partition]) for partition in bounds
        )
    return TopicNow(name, topic.id, topic.partitions, bounds, is_journal, is_region)


def _has_action(logs: Logs, topic: Topic, partition: int, start: int, stop: int) -> bool:
    whole = Task(topic.name, topic.id, partition, start, stop, 1)
    for task in (replace(whole, stop=min(stop, start + _SAMPLE)), replace(whole, start=max(start, stop - _SAMPLE))):
        if task.start >= task.stop:
            continue
        for batch, _ in logs.frames(task):
            _, _, headers, _ = batch.rows()
            if headers is not None and any(name == ACTION_HEADER for of_one in headers for name, _ in of_one):
                return True
    return False

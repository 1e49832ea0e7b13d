"""Journals: the events of many entities on the partitions of one topic, replicated to an event store.

It may import `store`, and `log` without its engines. `journal` has the face of it; `fold` decides which actions count.
"""

from .appended import Appended, Position
from .event import Event
from .explain import ExplainedAction
from .follower import FollowReader
from .journal import ExpiredReport, Journal, PurgeReport, Recovered
from .reader import EventReader
from .snapshots import Snapshot
from .stats import JournalStats
from .stored_event import StoredEvent

__all__ = [
    "Appended",
    "Event",
    "EventReader",
    "ExpiredReport",
    "ExplainedAction",
    "FollowReader",
    "Journal",
    "JournalStats",
    "Position",
    "PurgeReport",
    "Recovered",
    "Snapshot",
    "StoredEvent",
]

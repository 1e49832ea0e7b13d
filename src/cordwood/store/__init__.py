"""The event store: event rows, one head row per journal, one pointer per partition.

A store needs no log, and knows no engine. It keeps rows; which actions count is decided above it, by the fold of
`cordwood.journal`. It may import `records`, and of `log` only `calls`.
"""

from .interface import EventPage, EventStore, ScanPart, SnapshotGuard, TopicPointers
from .opening import open_store
from .rows import Binding, DeadLetter, Deletion, EventRow, HeadRow, KeyChanges, Lease, PartitionChanges, SnapshotRow

__all__ = [
    "Binding",
    "DeadLetter",
    "Deletion",
    "EventPage",
    "EventRow",
    "EventStore",
    "HeadRow",
    "KeyChanges",
    "Lease",
    "PartitionChanges",
    "ScanPart",
    "SnapshotGuard",
    "SnapshotRow",
    "TopicPointers",
    "open_store",
]

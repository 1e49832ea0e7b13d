"""Decides how much of a log its topic's retention keeps: pure arithmetic on the log's extent."""

from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.stream.reading.cursor import Extent


def wants_retention(topic: TopicRow) -> bool:
    return topic.retention_ms is not None or topic.retention_bytes is not None


def kept_from(view: Extent, topic: TopicRow, now_ms: int) -> int:
    """The first offset to keep. Plogs expire whole, and one whose newest record is young enough stays."""
    oldest = None if topic.retention_ms is None else now_ms - topic.retention_ms
    keep_from = view.start
    total = sum(view.end_of(link) for link in view.chain)
    for link in view.chain:
        size = view.end_of(link)
        open_one = link.id == view.durable.plog
        newest = view.durable.max_timestamp if open_one else link.max_timestamp
        next_offset = view.durable.next_offset if open_one else link.next_offset
        too_old = oldest is not None and newest < oldest
        too_much = topic.retention_bytes is not None and not open_one and total - size >= topic.retention_bytes
        if not too_old and not too_much:
            break
        total -= size
        keep_from = max(keep_from, next_offset)
    # The chain may be ahead of the durable end: plogs whose rollovers are not recorded yet.
    return min(keep_from, view.durable.next_offset)

"""Logs: the interface (`interface`), and what implements it (`native`: a folder).

Imports `records` and below. An engine is everything that one URL leads to; a log is one partition of one topic.
"""

from .interface import Engine, Log, Reader, TopicInfo

__all__ = ["Engine", "Log", "Reader", "TopicInfo"]

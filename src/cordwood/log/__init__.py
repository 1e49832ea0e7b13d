"""Logs: the interface, and the engines that implement it.

`interface` has `Log`, `Reader` and `Engine`, `topics` the rules for topics, `calls` what every call needs (outcome,
threads, completion). `native` is Cordwood's own engine, `kafka` the one on Kafka. Imports `records` and below.
An engine is everything that one url leads to; a log is one partition of one topic.
"""

from .interface import Engine, Follow, Log, Reader, TopicInfo
from .topics import TopicChange, TopicConfig

__all__ = ["Engine", "Follow", "Log", "Reader", "TopicChange", "TopicConfig", "TopicInfo"]

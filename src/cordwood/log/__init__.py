"""Logs: the interface, and the engines that implement it.

`interface` has `Log`, `Reader`, `PartitionsReader` and `Engine`, `engines` the registry of engines, `topics` the rules
for topics, and `calls` the parts of every call (outcome, threads, completion). `native` has Cordwood's own engines,
`kafka` the one on Kafka. Imports `records` and below. An engine serves everything at one url; a log is one partition
of one topic.
"""

from .interface import Engine, Follow, Log, PartitionsReader, Reader, Starts, TopicInfo
from .topics import TopicChange, TopicConfig

__all__ = [
    "Engine",
    "Follow",
    "Log",
    "PartitionsReader",
    "Reader",
    "Starts",
    "TopicChange",
    "TopicConfig",
    "TopicInfo",
]

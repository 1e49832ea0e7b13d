"""The state that outlives every process and every plog: topics, trim points, epochs, and the latest metadata plog.

Each call is one transaction: when it returns it is durable, when it raises nothing has changed. Imports `errors`, and
the rules for topics' names.
"""

from .interface import Coordinator, LogRow, Stamp, TopicRow
from .sqlite import SqliteCoordinator

__all__ = ["Coordinator", "LogRow", "SqliteCoordinator", "Stamp", "TopicRow"]

"""Cordwood: durable, ordered logs for Python programs.

This is the whole public face. A name is imported from its module when it is first used, so that
`import cordwood` costs next to nothing and loads no optional package.
"""

from importlib import import_module

from cordwood._version import __version__ as __version__

# Type checkers take the name for true. `typing` has it too, and importing that takes most of the time of this module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from cordwood import sync as sync
    from cordwood.client import Client as Client
    from cordwood.client import connect as connect
    from cordwood.errors import Conflict as Conflict
    from cordwood.errors import CordwoodError as CordwoodError
    from cordwood.errors import Corrupt as Corrupt
    from cordwood.errors import Fenced as Fenced
    from cordwood.errors import InvalidInput as InvalidInput
    from cordwood.errors import NotFound as NotFound
    from cordwood.errors import Sealed as Sealed
    from cordwood.errors import Timeout as Timeout
    from cordwood.errors import TooLarge as TooLarge
    from cordwood.errors import Trimmed as Trimmed
    from cordwood.errors import Unavailable as Unavailable
    from cordwood.journal import Appended as Appended
    from cordwood.journal import Event as Event
    from cordwood.journal import EventReader as EventReader
    from cordwood.journal import ExpiredReport as ExpiredReport
    from cordwood.journal import ExplainedAction as ExplainedAction
    from cordwood.journal import FollowReader as FollowReader
    from cordwood.journal import Journal as Journal
    from cordwood.journal import JournalStats as JournalStats
    from cordwood.journal import Position as Position
    from cordwood.journal import PurgeReport as PurgeReport
    from cordwood.journal import Recovered as Recovered
    from cordwood.journal import Snapshot as Snapshot
    from cordwood.journal import StoredEvent as StoredEvent
    from cordwood.log import Log as Log
    from cordwood.log import PartitionsReader as PartitionsReader
    from cordwood.log import Reader as Reader
    from cordwood.log import TopicInfo as TopicInfo
    from cordwood.records import Batch as Batch
    from cordwood.records import BinaryColumn as BinaryColumn
    from cordwood.records import HeaderColumn as HeaderColumn
    from cordwood.records import Record as Record
    from cordwood.records import StoredBatch as StoredBatch
    from cordwood.records import StoredRecord as StoredRecord
    from cordwood.store import DeadLetter as DeadLetter
    from cordwood.store import EventStore as EventStore
    from cordwood.wal import RecoveryReport as RecoveryReport
    from cordwood.wal import Region as Region
    from cordwood.wal import RegionReader as RegionReader
    from cordwood.wal import RegionStats as RegionStats
    from cordwood.wal import TableEntries as TableEntries
    from cordwood.wal import TableMeta as TableMeta
    from cordwood.wal import Wal as Wal

# Public name -> the module that has it; a public module is here under its own name.
# For type checkers each name is imported above as well; a test holds the two lists together.
_MODULES = {
    "Appended": "cordwood.journal",
    "Batch": "cordwood.records",
    "BinaryColumn": "cordwood.records",
    "Client": "cordwood.client",
    "Conflict": "cordwood.errors",
    "CordwoodError": "cordwood.errors",
    "Corrupt": "cordwood.errors",
    "DeadLetter": "cordwood.store",
    "Event": "cordwood.journal",
    "EventReader": "cordwood.journal",
    "EventStore": "cordwood.store",
    "ExpiredReport": "cordwood.journal",
    "ExplainedAction": "cordwood.journal",
    "Fenced": "cordwood.errors",
    "FollowReader": "cordwood.journal",
    "HeaderColumn": "cordwood.records",
    "InvalidInput": "cordwood.errors",
    "Journal": "cordwood.journal",
    "JournalStats": "cordwood.journal",
    "Log": "cordwood.log",
    "NotFound": "cordwood.errors",
    "PartitionsReader": "cordwood.log",
    "Position": "cordwood.journal",
    "PurgeReport": "cordwood.journal",
    "Reader": "cordwood.log",
    "Record": "cordwood.records",
    "Recovered": "cordwood.journal",
    "RecoveryReport": "cordwood.wal",
    "Region": "cordwood.wal",
    "RegionReader": "cordwood.wal",
    "RegionStats": "cordwood.wal",
    "Sealed": "cordwood.errors",
    "Snapshot": "cordwood.journal",
    "StoredBatch": "cordwood.records",
    "StoredEvent": "cordwood.journal",
    "StoredRecord": "cordwood.records",
    "TableEntries": "cordwood.wal",
    "TableMeta": "cordwood.wal",
    "Timeout": "cordwood.errors",
    "TooLarge": "cordwood.errors",
    "TopicInfo": "cordwood.log",
    "Trimmed": "cordwood.errors",
    "Unavailable": "cordwood.errors",
    "Wal": "cordwood.wal",
    "connect": "cordwood.client",
    "sync": "cordwood.sync",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    module_name = _MODULES.get(name)
    if module_name is None:
        raise AttributeError(f"module 'cordwood' has no attribute {name!r}")
    module = import_module(module_name)
    value: object = module if module_name == f"cordwood.{name}" else getattr(module, name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""One append-only file of frames: create, append, read, seal, status, delete.

A log server keeps one plog for one id; in the folder engine, the process is its own only server. This package knows no
logs, topics or other plogs. It imports `records`, `errors` and the disk it is given.
"""

from .id import PlogId
from .plog import APPEND_BYTES_MAX, Plog, PlogStatus
from .store import OPEN_PLOGS_MAX, PlogStore
from .tail import Tail, find_tail, make_durable, sealed_end

__all__ = [
    "APPEND_BYTES_MAX",
    "OPEN_PLOGS_MAX",
    "Plog",
    "PlogId",
    "PlogStatus",
    "PlogStore",
    "Tail",
    "find_tail",
    "make_durable",
    "sealed_end",
]

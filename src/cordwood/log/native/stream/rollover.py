"""How a stream moves to its next plog: the change of its chain, and the policies that differ between streams.

A log's stream and the metadata stream roll over in the same steps, under different policies. A log's rollover is
recorded in the metadata stream, the metadata stream's own in the coordinator.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cordwood.log.native.chain.chain import Link
from cordwood.log.native.chain.records import DROPPED_MAX, Dropped, Incremental, Init, MetadataRecord
from cordwood.log.native.env.workers import Done, nothing
from cordwood.log.native.plog import Plog

PLOG_BYTES_FIRST = 1024 * 1024
PLOG_BYTES_MAX = 16 * 1024 * 1024

# A plog has room for so many appends as large as its first one, up to the limit.
_LARGE_APPENDS = 16


class NoRoom(Exception):
    """The next plog is not available now: nothing was written of the appends that need it."""

    def __init__(self, reason: str, *, keep_plog: bool = False) -> None:
        super().__init__(reason)
        self.keep_plog = keep_plog


def is_full(error: BaseException | None) -> bool:
    """Whether the disk, or the quota of this user, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class ChangeState(Enum):
    """The progress of a change of the chain."""

    IN_MEMORY = "the stream works with the new chain; a crash brings the old one back"
    RECORDED = "durable: acks that wait for it may leave, and dropped plogs may go"


@dataclass(slots=True)
class ChainChange:
    """One change of a stream's chain: a rollover, a seal without a next plog, or dropped plogs.

    The stream makes it, the policy records it, and the stream completes it once it is recorded.
    """

    rollovers: int
    """How many rollovers the stream has made, this one included: once it is recorded, acks up to there may leave."""
    sealed: Link | None = None
    """The last plog, if the metadata does not have its end yet."""
    following: Link | None = None
    """The next plog, if this is a rollover."""
    dropped: Sequence[Link] = ()
    last: bool = False
    """Whether the stream stops with it: then the file's own seal is synced, too."""
    done: Done = nothing
    state: ChangeState = ChangeState.IN_MEMORY

    def records(self) -> list[MetadataRecord]:
        """The metadata records that make it durable; none if the chain stays as it is."""
        ids = [link.id for link in self.dropped]
        drops: list[MetadataRecord] = [Dropped(ids[at : at + DROPPED_MAX]) for at in range(0, len(ids), DROPPED_MAX)]
        if self.sealed is not None:
            return [Incremental(self.sealed, self.following), *drops]
        return drops if self.following is None else [Init(self.following), *drops]


class RolloverPolicy(Protocol):
    patient: bool
    """Whether appends wait for room, in order and without a limit; otherwise they are refused."""

    keeps_plogs: bool
    """Whether the plogs before the last one are still needed."""

    def plog_bytes(self, plogs_before: int, needed: int) -> int:
        """The size of the next plog of this open, if `needed` bytes are to be put into it at once."""

    def plog_bytes_least(self, needed: int) -> int:
        """The least size of the next plog, on a disk that has no room for more."""

    def ready(self, size: int, next_offset: int) -> Plog | None:
        """The plog that the last `prepare` has kept, if it is still usable and has `size` bytes left."""

    def prepare(self, plog: Plog, next_offset: int) -> int:
        """Called with the next plog before it is used; returns the offset that follows. `NoRoom`: not now."""

    def record(self, records: Sequence[MetadataRecord], done: Done) -> None:
        """Make a change of the chain durable, after every earlier one."""


class Metadata(Protocol):
    def record(self, service: str, records: Sequence[MetadataRecord], done: Done) -> None: ...

    def stuck(self) -> str | None:
        """Why nothing can be recorded now, or None."""


class LogRolloverPolicy:
    """The plogs of a log: recorded in the metadata stream."""

    patient = False
    keeps_plogs = True

    def __init__(self, metadata: Metadata, service: str, plog_bytes_max: int = PLOG_BYTES_MAX) -> None:
        self._metadata = metadata
        self._service = service
        self._plog_bytes_max = plog_bytes_max

    def plog_bytes(self, plogs_before: int, needed: int) -> int:
        # The first plogs are small, so that a thousand logs with one record each do not reserve 16 GiB. Other large
        # appends usually follow a large one.
        wanted = max(PLOG_BYTES_FIRST << (2 * min(plogs_before, 8)), _LARGE_APPENDS * needed)
        return max(needed, min(self._plog_bytes_max, wanted))

    def plog_bytes_least(self, needed: int) -> int:
        return needed

    def ready(self, size: int, next_offset: int) -> Plog | None:
        return None

    def prepare(self, plog: Plog, next_offset: int) -> int:
        # A rollover that cannot be recorded would hold its acks back: better to refuse before anything is written.
        if (reason := self._metadata.stuck()) is not None:
            raise NoRoom(reason)
        return next_offset

    def record(self, records: Sequence[MetadataRecord], done: Done) -> None:
        self._metadata.record(self._service, records, done)

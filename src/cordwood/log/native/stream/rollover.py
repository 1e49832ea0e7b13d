"""What differs between a log's stream and the metadata stream when one plog follows another."""

import errno
from collections.abc import Callable, Sequence
from typing import Protocol

from cordwood.log.native.chain.chain import Link
from cordwood.log.native.chain.records import DROPPED_MAX, Dropped, Incremental, Init, MetadataRecord
from cordwood.log.native.plog import Plog

Done = Callable[[], None]
"""Called once, on any thread, when what was asked for is durable."""

PLOG_BYTES_FIRST = 1024 * 1024
PLOG_BYTES_MAX = 16 * 1024 * 1024

# A plog has room for so many appends as large as its first one, up to the limit.
_LARGE_APPENDS = 16


class NoRoom(Exception):
    """The next plog cannot be had now: nothing of what needs it was written."""

    def __init__(self, reason: str, *, keep_plog: bool = False) -> None:
        super().__init__(reason)
        self.keep_plog = keep_plog


def is_full(error: BaseException | None) -> bool:
    """Whether it says that the disk has no room, or none for this user."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class Rollover(Protocol):
    patient: bool
    """Whether appends wait, in order and for ever, until there is room, or are refused."""

    keeps_plogs: bool
    """Whether the plogs before the last one are still needed."""

    def plog_bytes(self, plogs_before: int, needed: int) -> int:
        """How large the next plog of this open is to be, if `needed` bytes are to be put into it at once."""

    def plog_bytes_least(self, needed: int) -> int:
        """How large it must be, on a disk that has no room for more."""

    def ready(self, size: int, next_offset: int) -> Plog | None:
        """The plog that the last `prepare` has kept, if it can still be used and has room for so much."""

    def prepare(self, plog: Plog, next_offset: int) -> int:
        """Called with the next plog before it is used; returns the offset that follows. `NoRoom`: not now."""

    def record(self, records: Sequence[MetadataRecord], done: Done) -> None:
        """Make a change of the chain durable, after every earlier one."""


class Metadata(Protocol):
    def record(self, service: str, records: Sequence[MetadataRecord], done: Done) -> None: ...

    def stuck(self) -> str | None:
        """Why nothing can be recorded now, or None."""


class LogRollover:
    """The plogs of a log: recorded in the metadata stream."""

    patient = False
    keeps_plogs = True

    def __init__(self, metadata: Metadata, service: str, plog_bytes_max: int = PLOG_BYTES_MAX) -> None:
        self._metadata = metadata
        self._service = service
        self._plog_bytes_max = plog_bytes_max

    def plog_bytes(self, plogs_before: int, needed: int) -> int:
        # The first ones are small, so that a thousand logs that each got one record do not reserve 16 GiB; but whoever
        # comes with a large append comes again.
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


def nothing() -> None:
    """Done, and nobody waits for it."""


def succeeded(sealed: Link | None, following: Link | None) -> list[MetadataRecord]:
    """The record of a rollover; `sealed` is None when the chain's last plog is known to be sealed, or there is none."""
    if sealed is not None:
        return [Incremental(sealed, following)]
    return [] if following is None else [Init(following)]


def dropped(links: Sequence[Link]) -> list[MetadataRecord]:
    ids = [link.id for link in links]
    return [Dropped(ids[first : first + DROPPED_MAX]) for first in range(0, len(ids), DROPPED_MAX)]

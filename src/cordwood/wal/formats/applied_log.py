"""A data log of any format, applied up to an offset: every reader and writer of a region needs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from cordwood.errors import Corrupt
from cordwood.log import Log
from cordwood.records import BinaryColumn, Buffer, StoredBatch
from cordwood.wal.formats.decoder import RecordDecoder
from cordwood.wal.names import ID_MAX
from cordwood.wal.record import NOBODY, DataRecord, Writes
from cordwood.wal.state.state import RegionState


class AppliedLog(ABC):
    """One data log, and the state that follows from it."""

    table_max: int = ID_MAX
    """The largest id of a table that its records can have."""

    def __init__(self, log: Log, region: int, permissive: bool = False) -> None:
        """`permissive`: pass over records that cannot be decoded (R45), instead of raising `Corrupt`."""
        self.log = log
        self.permissive = permissive
        self.region = region
        self.state = RegionState()
        self.owner = NOBODY
        """The id under which this process writes; NOBODY: it only reads, or the format has no owners."""
        self.start = 0
        """Where the log began when it was opened."""
        self.on_growth: Callable[[], None] = lambda: None
        """Called when the state has grown."""
        self.broken: Corrupt | None = None
        """Why its owner appends nothing more: one of its logs was replaced, or lost records that the owner has read.
        Other readers may see a state in which nothing of this owner counts; an opening reads it anew."""

    @property
    def end(self) -> int | None:
        """The offset at which a read that begins now ends; None: at the end of the log."""
        return None

    @property
    @abstractmethod
    def decoder(self) -> RecordDecoder:
        """It decodes the records of this log."""

    def records(self, batch: StoredBatch) -> Iterator[tuple[int, DataRecord]]:
        """The records of a batch of this log, with their offsets; their payloads are views of the batch."""
        return self.decoder.records(batch, self._pass_over if self.permissive else None)

    def writes(self, batch: StoredBatch) -> Writes | None:
        """The same as columns, where all of them are sound writes and that is cheap to see."""
        return self.decoder.writes(batch)

    def _pass_over(self, offset: int, error: Corrupt) -> None:
        self.state.pass_over(offset)

    def note_growth(self, records: int, size: int) -> None:
        """After so many records of so many bytes were applied to the state."""
        self.state.note_growth(records, size)
        self.on_growth()


def values_of(batch: StoredBatch) -> Iterator[Buffer]:
    """The values of a batch, each a view of it, without making a column of rows or rows of a column."""
    values = batch.rows()[0]
    if isinstance(values, BinaryColumn):
        _, offsets, data = values.buffers()
        bounds = offsets[values.start : values.start + len(values) + 1].tolist()
        return map(data.__getitem__, map(slice, bounds, bounds[1:]))
    return (value or b"" for value in values)  # a null, which nobody of ours writes, is no record: decoding says so


def keys_of(batch: StoredBatch) -> Iterable[bytes]:
    """The keys of a batch; where a record has none, an empty one."""
    keys = batch.rows()[1]
    return repeat(b"", len(batch)) if keys is None else (key or b"" for key in keys)


def size_of(batch: StoredBatch) -> int:
    """The bytes of its values."""
    values = batch.rows()[0]
    return values.data_bytes if isinstance(values, BinaryColumn) else sum(map(len, filter(None, values)))

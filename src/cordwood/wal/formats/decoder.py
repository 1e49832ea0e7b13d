"""The interface of a decoder of data records: a plain value, so that another process can decode the same log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from cordwood.errors import Corrupt
from cordwood.records import StoredBatch
from cordwood.wal.record import DataRecord, Writes

OnBad: TypeAlias = Callable[[int, Corrupt], None]
"""Called with the offset of a record that cannot be decoded, after the records before it were taken."""


class RecordDecoder(Protocol):
    """Decodes the batches of one data log."""

    @property
    def bare(self) -> bool:
        """Whether the column of a record is its only payload, without bounds."""

    def records(self, batch: StoredBatch, on_bad: OnBad | None = None) -> Iterator[tuple[int, DataRecord]]:
        """The records of a batch that decode, with their offsets; their columns are views of the batch.

        Without `on_bad` a record that does not decode raises `Corrupt`.
        """

    def writes(self, batch: StoredBatch) -> Writes | None:
        """The same as columns, where all of them are sound writes and that is cheap to see."""

"""Cleaning a region: snapshot, decide, make the snapshot durable, trim. In this order, so that a crash between any two
loses nothing."""

from __future__ import annotations

import asyncio
import logging

from cordwood.errors import CordwoodError, Fenced, InvalidInput, Timeout, Unavailable, reason_of
from cordwood.log.calls.deadline import deadline
from cordwood.wal.formats.applied_log import AppliedLog
from cordwood.wal.formats.interface import RegionMetaWriter

_LOGGER = logging.getLogger("cordwood.wal")


class Cleaner:
    """Cleans one region that this process owns."""

    def __init__(self, data: AppliedLog, meta_writer: RegionMetaWriter) -> None:
        self.pruned_to = data.start
        """Safe to trim the data log up to this offset, which a durable snapshot confirms."""
        self.trimmed_to = data.start
        """Trimmed up to this offset; less than `pruned_to` if the log refused to trim."""
        self.refused: CordwoodError | None = None
        """Why the data log was not trimmed, if it was not."""
        self.failure: CordwoodError | None = None
        """Why the last clean failed; None: it did not."""
        self._data = data
        self._meta_writer = meta_writer
        self._turn = asyncio.Lock()

    @property
    def over(self) -> bool:
        """Whether every later clean fails: another owner has the region, or it is broken. Its next write says so."""
        return isinstance(self.failure, Fenced) or self._data.broken is not None

    async def clean(self, timeout: float | None = None) -> None:
        """Trim what no table needs. There may be nothing to do."""
        late = f"{self._data.log.name}: cleaning it took more than {timeout} s: the next clean continues"
        # The time for one that runs already is part of it.
        async with deadline(timeout, lambda: Timeout(late)), self._turn:
            await self._clean_and_note(timeout)

    async def _clean_and_note(self, timeout: float | None) -> None:
        try:
            await self._clean(timeout)
        except Exception as error:
            unknown = Unavailable(f"{self._data.log.name}: cleaning it raised {error!r}", reason=reason_of(error))
            self.failure = error if isinstance(error, CordwoodError) else unknown
            raise
        self.failure = None

    async def _clean(self, timeout: float | None) -> None:
        self._meta_writer.check_owner()
        if self._data.state.trim_target > self.pruned_to:
            # R12: the snapshot counts, so no newer owner has read the meta log without it.
            self.pruned_to = (await self._meta_writer.snapshot(timeout)).trim_target
            self._data.state.prune(self.pruned_to)
        if self.pruned_to > self.trimmed_to:
            await self._trim(timeout)

    async def _trim(self, timeout: float | None) -> None:
        try:
            await self._data.log.trim(self.pruned_to, timeout=timeout)
        except (Unavailable, InvalidInput) as error:
            # Everything reads from the pruned place on: all that is lost is space.
            if self.refused is None:
                _LOGGER.warning("%s: is not trimmed before %d: %s", self._data.log.name, self.pruned_to, error)
            self.refused = error
        else:
            self.refused = None
            _LOGGER.info("%s: trimmed to %d, from %d", self._data.log.name, self.pruned_to, self.trimmed_to)
            self.trimmed_to = self.pruned_to

    def holding_back(self, bytes_max: int) -> list[int]:
        """The tables whose live entries make the region larger than `bytes_max`, the oldest first."""
        state = self._data.state
        if state.bytes_from(state.trim_target) <= bytes_max:
            return []
        needed = state.offset_of_last(bytes_max)
        return [table for offset, table in sorted(state.holders()) if offset < needed]

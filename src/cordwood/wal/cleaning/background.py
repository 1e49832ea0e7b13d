"""Cleaning a region in the background: every so often, and whatever becomes of a round or of other regions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from cordwood.errors import CordwoodError, Fenced, Unavailable
from cordwood.wal.cleaning.cleaner import Cleaner

TABLES_SHOWN_MAX: Final = 20

Flush: TypeAlias = Callable[[list[int]], Awaitable[None]]
"""Asks for the tables to be flushed and marked."""

_LOGGER = logging.getLogger("cordwood.wal")


class BackgroundCleaner:
    """A task of one region: it cleans, and where the region is too large asks for tables to be flushed."""

    def __init__(
        self, cleaner: Cleaner, name: str, every: float, bytes_max: int, flush: Flush | None, region: object
    ) -> None:
        """The task keeps `region` alive, though nobody else has it any more: what closes that ends the task."""
        self.failure: CordwoodError | None = None
        """What `flush` raised when it was asked last; None: nothing, or there is nothing to ask for any more."""
        self._cleaner = cleaner
        self._name = name
        self._every = every
        self._bytes_max = bytes_max
        self._flush = flush
        self._region = region
        self._warned_of: list[int] = []
        self._closed = False
        self._asking = False
        self._task = asyncio.create_task(self._run(), name="cordwood-clean")

    async def close(self) -> None:
        """No more background; one that runs is broken off, unless `flush` runs: then it is the last.

        For `flush` may be what closes the region, in whichever task: to cancel it or to wait for it would be to cancel
        this call, or to wait for it.
        """
        loop = self._task.get_loop()
        if loop is not asyncio.get_running_loop():
            with suppress(RuntimeError):  # that loop is closed, and the task with it
                loop.call_soon_threadsafe(self._task.cancel)
            return
        self._closed = True
        if not self._asking:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._closed and not self._cleaner.over:
            await asyncio.sleep(self._every)
            try:
                await self._round()
            except Fenced:
                continue
            except Exception as error:
                _LOGGER.warning(
                    "%s: a round of cleaning failed, the next one is in %g s: %s", self._name, self._every, error
                )

    async def _round(self) -> None:
        await self._cleaner.clean()
        tables = self._cleaner.holding_back(self._bytes_max)
        if tables and self._flush is not None:
            await self._ask_for(tables, self._flush)
            if not self._closed:
                await self._cleaner.clean()
        else:
            self.failure = None
            if tables and tables != self._warned_of:
                shown = ", ".join(map(str, tables[:TABLES_SHOWN_MAX]))
                _LOGGER.warning(
                    "%s is larger than %d bytes: %d tables hold it back: flush and mark them: %s",
                    self._name, self._bytes_max, len(tables), shown,
                )  # fmt: skip
        self._warned_of = tables

    async def _ask_for(self, tables: list[int], flush: Flush) -> None:
        """Whatever it raises is kept and told: nobody else would see it."""
        self._asking = True
        try:
            await flush(tables)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # else something of its own that `flush` awaited was cancelled
            self.failure = Unavailable(f"{self._name}: on_flush_needed raised {error!r}", reason="failed")
            self.failure.__cause__ = error
            _LOGGER.warning("%s, the next round is in %g s", self.failure, self._every, exc_info=error)
        else:
            self.failure = None
        finally:
            self._asking = False

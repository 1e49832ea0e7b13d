"""Trimming the log of a journal: never below the replicator, and `keep` longer (R42)."""

import asyncio
import logging
from datetime import timedelta

from cordwood.errors import CordwoodError

from .topic import JournalTopic

_LOGGER = logging.getLogger("cordwood.journal")


class LogTrimmer:
    """Trims replicated records that are older than `keep`, now and then."""

    def __init__(self, topic: JournalTopic, keep: timedelta, every_seconds: float) -> None:
        self._topic = topic
        self._keep = keep
        self._every_seconds = every_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def trim(self) -> dict[int, int]:
        """Trim each partition before min(pointer + 1, the first record younger than `keep`): {partition: start}."""
        pointers = await self._topic.store.pointers(self._topic.name)
        trimmed: dict[int, int] = {}
        for partition, pointer in pointers.items():
            log = self._topic.log(partition)
            start, _ = await log.bounds()
            before = min(pointer + 1, await log.offset_at(self._topic.now() - self._keep))
            if before > start:
                await log.trim(before)
                trimmed[partition] = before
                _LOGGER.info(
                    "%s is trimmed before %d: it is replicated, and older than %s", log.name, before, self._keep
                )
        return trimmed

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            try:
                await self.trim()
            except CordwoodError as error:
                _LOGGER.warning("the log of %r was not trimmed: %s", self._topic.name, error)

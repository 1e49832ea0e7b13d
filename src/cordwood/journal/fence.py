"""The read fence: the offset up to which a read looks (R26)."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from .coalesce import NextRun
from .topic import JournalTopic

FenceKind: TypeAlias = Literal["mark", "watermark"]

SendMark: TypeAlias = Callable[[int], Awaitable[int]]
"""Append a Mark to a partition; its offset."""


class Fences:
    """Takes read fences: reads that wait share the next Mark, or the next look at the end."""

    def __init__(self, topic: JournalTopic, kind: FenceKind, send_mark: SendMark) -> None:
        self._topic = topic
        self._kind = kind
        self._send_mark = send_mark
        self._runs: dict[int, NextRun[int]] = {}
        self._acked: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def on_acked(self, partition: int, end: int) -> None:
        """R26: the watermark includes this process's own writes, whatever a deposed leader says."""
        if end > self._acked.get(partition, 0):
            self._acked[partition] = end

    async def take(self, partition: int) -> int:
        """One past the last offset that a read which begins now must look at."""
        run = self._runs.get(partition)
        if run is None:
            run = self._runs[partition] = NextRun(lambda: self._look(partition))
        return await run()

    async def _look(self, partition: int) -> int:
        seen = max(self._acked.get(partition, 0), self._seen.get(partition, 0))
        if self._kind == "mark":
            mark = await self._send_mark(partition)
            end, is_behind = mark + 1, mark < seen
        else:
            _, end = await self._topic.log(partition).bounds()
            is_behind = end < seen
        if is_behind:
            # A deposed leader may say so (R26), or it is another topic of that name (R23).
            await self._topic.check_id()
        end = max(end, seen, self._acked.get(partition, 0))
        self._seen[partition] = end
        return end

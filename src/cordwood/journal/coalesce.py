"""Calls that wait share the next run of one operation: each gets a result of a run that began after its call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from cordwood.errors import CordwoodError
from cordwood.log.calls.outcome import copy_for_caller

T = TypeVar("T")


class NextRun(Generic[T]):
    """One run at a time; callers that come while one is under way share the next one.

    ```python
    end = NextRun(log.bounds)
    start, stop = await end()
    ```
    """

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self._run = run
        self._waiting: list[asyncio.Future[T]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(future)
        if self._task is None:
            self._task = loop.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    result = await self._run()
                except asyncio.CancelledError:
                    # The loop ends: callers that wait for the next run get no other one.
                    for future in (*waiting, *self._waiting):
                        future.cancel()
                    raise
                except Exception as error:
                    for future in waiting:
                        if not future.done():
                            # Its caller may add an outcome, which holds for that call alone.
                            own = copy_for_caller(error) if isinstance(error, CordwoodError) else error
                            future.set_exception(own)
                else:
                    for future in waiting:
                        if not future.done():
                            future.set_result(result)
        finally:
            self._task = None

"""The time that a call may take."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cordwood.errors import CordwoodError, Timeout


@asynccontextmanager
async def deadline(seconds: float | None, error: Callable[[], Timeout]) -> AsyncIterator[None]:
    """Cancel the block after so many seconds, and raise `error()`; never if None.

    A `Timeout` that the block itself raises passes through, since it has more detail.

    ```python
    async with deadline(timeout, lambda: Timeout(f"{log}: bounds took more than {timeout} s")):
        await answer
    ```
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            yield
    except TimeoutError as raised:
        if isinstance(raised, CordwoodError) or not scope.expired():
            raise
        raise error() from raised

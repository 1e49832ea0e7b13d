"""Reading a log whose end may be gone: a region's own records tell a loss from a log that ends there (R11, R12)."""

from cordwood.errors import InvalidInput
from cordwood.log import Log, Reader
from cordwood.records import StoredBatch


def read_up_to_end(log: Log, start: int, stop: int | None) -> Reader:
    """As `log.read(start, stop)`, and empty where the log ends before `start`."""
    return _UpToEnd(log.read(start, stop))


class _UpToEnd(Reader):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def __anext__(self) -> StoredBatch:
        try:
            return await anext(self._reader)
        except InvalidInput:
            raise StopAsyncIteration from None

    async def close(self) -> None:
        await self._reader.close()

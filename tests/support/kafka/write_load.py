"""Writers that continue through every fault, and a check of the fate of each record."""

import asyncio
from collections import Counter
from typing import Self

from cordwood import Batch, CordwoodError, Log


class Load:
    """Writers of one log, each numbering its records; nothing is ever written again under the same number.

    ```python
    async with Load(log) as load:
        await load.acks(100)
        broker.kill()
        ...
    await load.check()
    ```
    """

    def __init__(self, log: Log, writers: int = 4, batch: int = 5) -> None:
        self._log = log
        self._writers = writers
        self._batch = batch
        self._acked: dict[bytes, int] = {}
        self._refused: set[bytes] = set()
        self._unknown: set[bytes] = set()
        self.errors: list[CordwoodError] = []
        self._changed = asyncio.Condition()
        self._stopping = False

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._write(writer)) for writer in range(self._writers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def acks(self, count: int) -> None:
        """Wait until so many more records are acked than now."""
        wanted = len(self._acked) + count
        async with self._changed, asyncio.timeout(90):
            await self._changed.wait_for(lambda: len(self._acked) >= wanted)

    async def failures(self, count: int) -> None:
        """Wait until so many appends have failed."""
        async with self._changed, asyncio.timeout(90):
            await self._changed.wait_for(lambda: len(self.errors) >= count)

    async def check(self) -> None:
        """Every acked record is at its offset, none twice, each writer's in order; none that was refused.

        A record of unknown outcome may have come late, after later ones of its writer.
        """
        start, stop = await self._log.bounds()
        assert start == 0
        stored = [record async for batch in self._log.read() for record in batch]
        assert [record.offset for record in stored] == list(range(stop)), "a record is missing, or one is twice"
        values = [record.value or b"" for record in stored]
        assert {value: stored[offset].value for value, offset in self._acked.items()} == {
            value: value for value in self._acked
        }
        assert [value for value, times in Counter(values).items() if times > 1] == []
        assert not self._refused & set(values)
        assert set(values) <= self._acked.keys() | self._unknown
        for writer in range(self._writers):
            acked = [value for value in values if value.startswith(b"%d:" % writer) and value in self._acked]
            numbers = [int(value.split(b":")[1]) for value in acked]
            assert numbers == sorted(numbers)

    async def _write(self, writer: int) -> None:
        number = 0
        while not self._stopping:
            values = [b"%d:%d" % (writer, number + each) for each in range(self._batch)]
            number += self._batch
            try:
                offsets = await self._log.append(Batch.of(values))
                self._acked.update(zip(values, offsets, strict=True))
            except CordwoodError as error:
                self.errors.append(error)
                {"not_written": self._refused, "unknown": self._unknown}[error.outcome or ""].update(values)
                await asyncio.sleep(0.01)  # one that is refused at once must not take the whole machine
            async with self._changed:
                self._changed.notify_all()

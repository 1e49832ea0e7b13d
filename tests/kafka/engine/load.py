"""Writers that never rest, and what they were promised."""

import asyncio
from collections.abc import Callable

from cordwood import Batch, Log


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Return when the condition holds; fail if it does not in time."""
    for _ in range(round(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it does not hold after {seconds} s")


class Load:
    """Tasks that append batches of 20 to one log, one after the other; `acked` has offset and value of every ack."""

    def __init__(self, log: Log, writers: int = 5) -> None:
        self.acked: dict[int, bytes] = {}
        self._log = log
        self._stopped = False
        self._tasks = [asyncio.ensure_future(self._write(name)) for name in range(writers)]

    async def some(self, count: int = 1000) -> None:
        """Return when so many more records are acked."""
        so_far = len(self.acked)
        await until(lambda: len(self.acked) >= so_far + count, 60)

    async def stop(self) -> None:
        """Raises what any writer was told."""
        self._stopped = True
        await asyncio.gather(*self._tasks)

    async def check(self) -> None:
        """Every acked record is there, at its offset, and none is there twice."""
        found = {record.offset: record.value async for batch in self._log.read() for record in batch}
        assert {offset: found.get(offset) for offset in self.acked} == self.acked
        assert len(set(found.values())) == len(found)

    async def _write(self, name: int) -> None:
        turn = 0
        while not self._stopped:
            values = [b"%d.%d.%d" % (name, turn, index) for index in range(20)]
            offsets = await self._log.append(Batch.of(values))
            assert list(offsets) == sorted(set(offsets))
            self.acked.update(zip(offsets, values, strict=True))
            turn += 1

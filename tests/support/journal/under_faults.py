"""Work on a journal while its log has faults. What was acked is kept, to be compared with the journal afterwards.

python -m tests.support.journal.under_faults LOG_URL STORE_URL TOPIC KEY: a rival, which appends until it is killed, and
prints each number that it has won.
"""

import asyncio
import sys
from itertools import count
from typing import Protocol

import cordwood
from cordwood import Appended, Conflict, CordwoodError, Event, Journal, Timeout, Unavailable

SECONDS = 90
"""No call takes longer, whatever happens to the servers."""

_CALL_SECONDS = 5
_IN_FLIGHT = 8


class Work(Protocol):
    """One task, which works until `ended` is set."""

    @property
    def done(self) -> int:
        """How many calls have succeeded."""

    async def run(self, ended: asyncio.Event) -> None: ...


async def append_until_decided(journal: Journal, key: str, text: str, expected: int) -> Appended:
    """Append one event after `expected`, and repeat it as long as nobody knows whether it counts."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await journal.append(key, [Event.text(text)], expected=expected, id=text, timeout=_CALL_SECONDS)
            except Conflict:
                raise
            except CordwoodError as error:
                if not error.retryable and error.outcome != "unknown":
                    raise


class Writer:
    """The only writer of its key: appends after the number that it knows."""

    def __init__(self, journal: Journal, key: str) -> None:
        self.journal = journal
        self.key = key
        self.acked: list[str] = []

    @property
    def done(self) -> int:
        return len(self.acked)

    async def run(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            text = f"{self.key} {len(self.acked) + 1}"
            done = await append_until_decided(self.journal, self.key, text, len(self.acked))
            assert done.seq_nrs == range(len(self.acked) + 1, len(self.acked) + 2)
            self.acked.append(text)


class Pipeline:
    """The only writer of its key: appends without a condition, several at a time, and repeats none."""

    def __init__(self, journal: Journal, key: str) -> None:
        self.journal = journal
        self.key = key
        self.acked: dict[str, int] = {}
        self.refused: set[str] = set()
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def done(self) -> int:
        return len(self.acked)

    async def run(self, ended: asyncio.Event) -> None:
        for number in count(1):
            while len(self._calls) >= _IN_FLIGHT:
                done, self._calls = await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
                for call in done:
                    call.result()
            if ended.is_set():
                break
            self._calls.add(asyncio.ensure_future(self._append(f"{self.key} {number}")))
        if self._calls:
            await asyncio.gather(*self._calls)

    async def _append(self, text: str) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                done = await self.journal.append(self.key, [Event.text(text)], timeout=_CALL_SECONDS)
        except (Timeout, Unavailable) as error:
            assert error.outcome in ("unknown", "not_written")  # noqa: PT017
            if error.outcome == "not_written":
                self.refused.add(text)
        else:
            self.acked[text] = done.seq_nrs[0]

    def check(self, found: list[object]) -> None:
        """Every acked event is at its number, no refused one is there, none is there twice, and all are in order."""
        assert {text: found[seq_nr - 1] for text, seq_nr in self.acked.items()} == {text: text for text in self.acked}
        numbers = [int(str(text).rpartition(" ")[2]) for text in found]
        assert numbers == sorted(set(numbers))
        assert not self.refused.intersection(map(str, found))


class Rival:
    """Races with others for the numbers of a key."""

    def __init__(self, journal: Journal, key: str, name: str) -> None:
        self.journal = journal
        self.key = key
        self.name = name
        self.won: dict[int, str] = {}

    @property
    def done(self) -> int:
        return len(self.won)

    async def run(self, ended: asyncio.Event) -> None:
        at = 0
        for number in count(1):
            if ended.is_set():
                return
            id = f"{self.name}-{number}"
            try:
                done = await append_until_decided(self.journal, self.key, id, at)
            except Conflict as error:
                assert error.actual is not None  # noqa: PT017
                assert error.actual > at  # noqa: PT017
                at = error.actual
            else:
                at = done.seq_nrs[0]
                self.won[at] = id
                self.on_won(at, id)
            await asyncio.sleep(0.01)

    def on_won(self, seq_nr: int, id: str) -> None:
        """It has won this number."""


class Reader:
    """Reads a key, and recovers it, again and again: each time it sees at least what was acked before."""

    def __init__(self, journal: Journal, writer: Writer, *, recovers: bool) -> None:
        self.journal = journal
        self.writer = writer
        self.recovers = recovers
        self.done = 0

    async def run(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            acked = list(self.writer.acked)
            try:
                async with asyncio.timeout(SECONDS):
                    found = await (self._recover() if self.recovers else payloads(self.journal, self.writer.key))
            except (Timeout, Unavailable):
                continue
            assert found[: len(acked)] == acked
            self.done += 1
            await asyncio.sleep(0.02)

    async def _recover(self) -> list[object]:
        async with self.journal.recover(self.writer.key) as recovered:
            return [event.payload async for event in recovered]


async def payloads(journal: Journal, key: str) -> list[object]:
    """All events of a key."""
    async with journal.read(key) as reader:
        return [event.payload async for event in reader]


class _PrintingRival(Rival):
    def on_won(self, seq_nr: int, id: str) -> None:
        print("won", seq_nr, id, flush=True)


async def main(log_url: str, store_url: str, topic: str, key: str) -> None:
    async with cordwood.connect(log_url) as cw:
        journal = cw.journal(topic, store=store_url, replicate=False)
        await _PrintingRival(journal, key, "other").run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

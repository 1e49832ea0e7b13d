"""The pictures of the designs that the write-ahead log follows, as files that a person can read: `scenarios/`."""

from pathlib import Path
from typing import Any

import pytest

from cordwood import Client, Log, Region, Unavailable
from cordwood.log import Follow
from cordwood.simulation.faulty_log import FaultyEngine, FaultyLog
from tests.support.wal.region_contents import taken
from tests.support.wal.region_internals import data_of

SCENARIOS = {
    path.stem: path.read_text(encoding="utf-8").splitlines()
    for path in sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
}
FILLER = 1_000_000


class Player:
    """Plays a scenario on a real region. A line is a verb and its arguments; a remark follows a #."""

    region: Region

    def __init__(self, cw: Client) -> None:
        self._cw = cw
        self._read_from: list[int] = []

    async def open(self) -> None:
        self._engine = _Noted(self._cw, self._read_from)
        self._read_from.clear()
        self.region = await self._engine.wal("scenario").region(7)

    async def nothing(self) -> None:
        pass

    async def fill(self, _to: str, offset: str) -> None:
        while self.region.stats().next_offset < int(offset):
            await self.region.write(FILLER, [b"filler"])

    async def write(self, table: str, *payloads: str) -> None:
        await self.region.write(int(table), [payload.encode() for payload in payloads])

    async def mark(self, table: str, _through: str, number: str) -> None:
        await self.region.mark_deleted(int(table), through=int(number))

    async def lose(self, table: str, _through: str, number: str) -> None:
        for log in self._engine.logs:
            log.odds = 1
        with pytest.raises(Unavailable):
            await self.mark(table, _through, number)
        self._engine.heal()

    async def snapshot(self) -> None:
        await self.region.snapshot()

    async def clean(self) -> None:
        await self.region.clean()

    async def crash(self) -> None:
        await self.open()

    async def from_(self, offset: str) -> None:
        assert self._read_from[0] == int(offset)

    async def begin(self, offset: str) -> None:
        assert (await self._cw.log("scenario_data_7").bounds())[0] == int(offset)

    async def read(self, table: str, *payloads: str) -> None:
        found = [p.decode() for _, _, ps in await taken(self.region.read(int(table))) for p in ps if p is not None]
        assert found == list(payloads)
        found = [p.decode() for t, _, ps in await taken(self.region.replay()) for p in ps if p and t == int(table)]
        assert found == list(payloads)

    async def table(self, table: str, *facts: str) -> None:
        meta = self.region.tables()[int(table)]
        expected = dict(zip(facts[::2], facts[1::2], strict=False))
        assert meta.next_sequence == int(expected["next"])
        assert meta.deleted_through == int(expected["deleted"])
        if "high" in expected:
            assert meta.high_watermark == int(expected["high"])
        if "at" in expected:
            places = [tuple(map(int, place.split(":"))) for place in facts[facts.index("at") + 1 :]]
            state = data_of(self.region).state
            assert [(number, state.offset_of(int(table), number)) for number, _ in places] == places
            assert {offset for _, offset in places} == set(meta.mapping.values())


class _Noted(FaultyEngine):
    """Notes from where the data log is read; appends to the meta log can be made to fail."""

    def __init__(self, cw: Client, read_from: list[int]) -> None:
        super().__init__(cw, 0, 0, ["refused"], part="_meta_")
        self._read_from = read_from

    def log(self, topic: str, partition: int, *, timeout: float) -> Log:
        log = super().log(topic, partition, timeout=timeout)
        if isinstance(log, FaultyLog):
            return log
        noted = FaultyLog(log, self._chance, 0, ["refused"])
        read = noted.read

        def note(
            start: int | None = None, stop: int | None = None, follow: Follow = False, topic_id: str | None = None
        ) -> Any:
            assert start is not None
            self._read_from.append(start)
            return read(start, stop, follow, topic_id)

        noted.read = note  # type: ignore[method-assign]
        return noted


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_scenario_goes_as_it_is_written(cw: Client, name: str) -> None:
    player = Player(cw)
    await player.open()
    for number, line in enumerate(SCENARIOS[name], 1):
        verb, *arguments = line.partition("#")[0].split() or ["nothing"]
        try:
            await getattr(player, "from_" if verb == "from" else verb)(*arguments)
        except AssertionError as error:
            raise AssertionError(f"{name}, line {number}: {line}") from error


def test_there_are_scenarios() -> None:
    assert list(SCENARIOS) == ["cleaning", "lost-mark", "recovery"]

"""A region against a dictionary: writes, marks, drops, snapshots, cleanings, crashes, moves, in any order."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cordwood import Client, CordwoodError, Fenced, Region, Wal
from cordwood.simulation.faulty_log import FaultyEngine
from cordwood.wal.formats.cordwood import meta_writer, snapshot, snapshot_policy
from tests.support.wal.region_model import Model

T = TypeVar("T")
TABLES = st.integers(0, 3)


@pytest.mark.parametrize("odds", [0.0, 0.15], ids=["all goes well", "appends go wrong"])
async def test_a_region_is_what_a_dictionary_is(
    cw: Client, engine: str, monkeypatch: pytest.MonkeyPatch, odds: float
) -> None:
    # So small that a few writes make a snapshot, and a few tables make it have parts.
    monkeypatch.setattr(snapshot_policy, "SNAPSHOT_WRITES", 6)
    monkeypatch.setattr(meta_writer, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 100)
    monkeypatch.setattr(snapshot, "TABLES_PER_TURN", 1)
    loop = asyncio.get_running_loop()
    ids = itertools.count()

    class Machine(RegionMachine):
        def __init__(self) -> None:
            super().__init__(loop, cw, next(ids), odds)

    steps = settings(
        max_examples=25 if engine == "embedded" else 5,  # opening a region there takes ten times as long
        stateful_step_count=30,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=False,
        derandomize=True,
    )
    await asyncio.to_thread(run_state_machine_as_test, Machine, settings=steps)


class RegionMachine(RuleBasedStateMachine):
    """Runs on a thread of its own; the region lives on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cw: Client, id: int, odds: float) -> None:
        super().__init__()
        self.loop, self.cw, self.id, self.odds = loop, cw, id, odds
        self.model = Model()
        self.engines: list[FaultyEngine] = []
        self.zombies: list[Region] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def attempt(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """What fails may have happened; the model keeps both in mind."""
        try:
            self.run(coroutine)
        except Fenced:
            raise
        except CordwoodError:
            if not self.odds:
                raise

    async def open(self) -> None:
        """Elsewhere: another engine's Wal is another owner."""
        engine = FaultyEngine(self.cw, f"{self.id} {len(self.engines)}", 0, part="_")
        self.engines.append(engine)
        self.wal: Wal = engine.wal("model")
        self.region = await self.wal.region(self.id)
        for log in engine.logs:
            log.odds = self.odds

    async def well(self) -> None:
        for engine in self.engines:
            engine.heal()
            await engine.settle()

    @initialize()
    def begin(self) -> None:
        self.run(self.open())

    @rule(table=TABLES, count=st.integers(1, 3))
    def write(self, table: int, count: int) -> None:
        self.attempt(self.model.write(self.region, table, count))

    @rule(table=TABLES, share=st.floats(0, 1))
    def mark(self, table: int, share: float) -> None:
        if table in self.region.tables():
            self.attempt(self.model.mark(self.region, table, round(share * self.model.last(table))))

    @rule(table=TABLES)
    def drop(self, table: int) -> None:
        self.attempt(self.model.drop(self.region, table))

    @rule()
    def make_snapshot(self) -> None:
        self.attempt(self.region.snapshot())

    @rule()
    def clean(self) -> None:
        self.attempt(self.region.clean())

    @rule()
    def reopen(self) -> None:
        async def reopen() -> None:
            await self.region.close()
            await self.well()
            await self.open()
            await self.model.settle(self.region)

        self.run(reopen())

    @rule()
    def crash(self) -> None:
        """Nobody closes it, and appends in flight may land at any time."""

        async def move() -> None:
            self.zombies.append(self.region)
            await self.well()
            await self.open()
            await self.model.settle(self.region)

        self.run(move())

    @precondition(lambda self: self.zombies)
    @rule(data=st.data(), how=st.sampled_from(["write", "mark", "drop", "snapshot", "clean"]))
    def a_zombie_wakes_up(self, data: st.DataObject, how: str) -> None:
        zombie = data.draw(st.sampled_from(self.zombies))

        async def act() -> None:
            try:
                if how == "write":
                    await zombie.write(0, [b"zombie"])
                elif how == "mark":
                    for table, meta in zombie.tables().items():
                        await zombie.mark_deleted(table, through=meta.next_sequence - 1)
                    return  # there may be nothing to mark
                elif how == "drop":
                    await zombie.drop_table(0)
                    return
                elif how == "snapshot":
                    await zombie.snapshot()
                else:
                    await zombie.clean()
                    return
            except CordwoodError:
                return
            raise AssertionError("a zombie was acked")

        self.run(act())

    @invariant()
    def the_region_is_what_the_model_is(self) -> None:
        if hasattr(self, "region"):
            self.run(self.model.check(self.region))

    def teardown(self) -> None:
        if not hasattr(self, "region"):
            return

        async def end() -> None:
            await self.well()
            for region in (*self.zombies, self.region):
                await region.close()
            async with self.cw.wal("model").region(self.id) as region:
                await self.model.settle(region)

        self.run(end())

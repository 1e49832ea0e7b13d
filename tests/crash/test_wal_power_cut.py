"""The power is cut at every operation of marks, snapshots and cleaning; whatever the disk kept, the region is whole."""

import asyncio
from random import Random

import pytest

from cordwood import Region
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.folder_engine import SimulatedEngine
from cordwood.wal.formats.cordwood import snapshot, snapshot_policy
from tests.support.crash.histories import cuts
from tests.support.wal.region_model import Model

REGION = 7


async def opened(folder: SimulatedFolder) -> tuple[SimulatedEngine, Region]:
    folder.open()
    folder.run()
    engine = SimulatedEngine(folder)
    return engine, await engine.wal("metrics").region(REGION)


async def live(engine: SimulatedEngine, model: Model) -> None:
    """Write, mark, drop, snapshot and clean; close; and once more after an opening."""
    for opening in range(2):
        region = await engine.wal("metrics").region(REGION)
        for step in range(3):
            for table in range(3):
                await model.write(region, table, 1 + step % 2)
            await model.mark(region, step % 3, model.last(step % 3) - 1)
            if step == 1:
                await model.drop(region, 1)
            if step >= 1:
                await region.clean()
        await region.snapshot()
        if opening == 0:
            await region.close()


async def lived(seed: int, crash_at: int | None) -> tuple[SimulatedFolder, Model]:
    disk = SimulatedDisk()
    folder = SimulatedFolder(seed, disk=disk)
    folder.open()
    folder.run()
    model = Model()
    engine = SimulatedEngine(folder)
    if crash_at is not None:
        disk.crash_at(crash_at)
    living = asyncio.create_task(live(engine, model))
    off = asyncio.create_task(engine.off.wait())
    await asyncio.wait([living, off], return_when=asyncio.FIRST_COMPLETED)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(living, off, return_exceptions=True)
    if crash_at is None:
        assert living.exception() is None
    return folder, model


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES_MAX", 100)
    monkeypatch.setattr(snapshot_policy, "SNAPSHOT_WRITES", 7)


@pytest.mark.timeout(600)
async def test_a_power_cut_at_any_operation_of_a_region_takes_no_ack(seeds: int) -> None:
    whole, _ = await lived(0, None)
    for at in range(1, whole.disk.operations + 2):
        crashed, model = await lived(0, at)
        ways = list(cuts(seeds, f"wal {at}"))
        # One way at each operation, by turns; all of them where more is tried.
        for name, cut in ways if seeds > 1 else [ways[at % len(ways)]]:
            truth = copied(model)
            try:
                found = crashed.power_cut(cut, seed=at)
                await survived(found, truth)
                again = found.power_cut(Random(at), seed=at + 1)
                await survived(again, truth)
            except Exception as error:
                raise AssertionError(f"cut at {at}, {name}: {crashed.disk.history[-5:]}") from error


def copied(model: Model) -> Model:
    return Model(
        {table: dict(entries) for table, entries in model.logs.items()},
        dict(model.deleted),
        set(model.dropped),
        set(model.maybe_written),
        dict(model.maybe_deleted),
        model._written,
    )


async def survived(folder: SimulatedFolder, model: Model) -> None:
    _, region = await opened(folder)
    await model.settle(region)
    await model.write(region, 0, 2)
    await model.write(region, 1, 1)
    await model.mark(region, 2, model.last(2))
    await region.clean()
    await model.check(region)

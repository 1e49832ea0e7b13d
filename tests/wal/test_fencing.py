"""R10: the newest owner wins, and nobody's write is acked and lost."""

import asyncio
import random

import pytest

from cordwood import Client, Fenced, Region
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_history import History


async def test_r10_a_zombie_owner_gets_no_ack(cw: Client) -> None:
    old = await cw.wal("metrics").region(7)
    await old.write(42, [b"before"])
    new = await cw.wal("metrics").region(7)
    assert new.tables()[42].next_sequence == 2
    for _ in range(2):
        with pytest.raises(Fenced, match=r"region 7 .* was opened by \S+:\d+ at offset 2, after") as gone:
            await old.write(42, [b"zombie"])
        assert gone.value.outcome == "not_written"
    assert await new.write(42, [b"after"]) == range(2, 3)
    expected = [(42, range(1, 2), [b"before"]), (42, range(2, 3), [b"after"])]
    assert await taken(new.replay()) == expected
    assert await taken(old.replay()) == expected, "reading is for everybody"
    assert await taken(old.read(42)) == expected


async def test_a_fenced_owner_takes_the_region_back_by_opening_it(cw: Client) -> None:
    wal = cw.wal("metrics")
    old = await wal.region(7)
    new = await cw.wal("metrics").region(7)
    await new.write(42, [b"a"])
    with pytest.raises(Fenced):
        await old.write(42, [b"b"])
    again = await wal.region(7)
    assert again is not old
    assert await again.write(42, [b"c"]) == range(2, 3)
    with pytest.raises(Fenced):
        await new.write(42, [b"d"])
    with pytest.raises(Fenced):
        await old.write(42, [b"e"])
    assert await by_table(again) == {42: {1: b"a", 2: b"c"}}


async def test_write_many_of_a_zombie_says_that_nothing_is_written(cw: Client) -> None:
    old = await cw.wal("metrics").region(7)
    await cw.wal("metrics").region(7)
    with pytest.raises(Fenced) as gone:
        await old.write_many({1: [b"a"], 2: [b"b"]})
    assert (gone.value.outcome, gone.value.written, gone.value.unknown) == ("not_written", {}, {})


@pytest.mark.parametrize("seed", range(5))
async def test_r10_while_owners_change_no_ack_is_lost_and_nothing_is_doubled(cw: Client, seed: int) -> None:
    chance = random.Random(seed)
    history = History()
    regions: list[Region] = [await cw.wal("metrics").region(7)]
    number = iter(range(1_000_000))
    fenced = 0

    async def write_until_fenced(region: Region) -> None:
        nonlocal fenced
        while True:
            payloads = [b"%d" % next(number) for _ in range(chance.randint(1, 4))]
            error = await history.write(region, chance.randint(1, 5), payloads)
            if isinstance(error, Fenced):
                fenced += 1
                return
            assert error is None

    writers = [asyncio.create_task(write_until_fenced(regions[0])) for _ in range(8)]
    for _ in range(8):
        for _ in range(5):
            await history.write(regions[-1], 6, [b"%d" % next(number)])  # the others write meanwhile
        region = await cw.wal("metrics").region(7)
        regions.append(region)
        writers += [asyncio.create_task(write_until_fenced(region)) for _ in range(8)]
    last = await cw.wal("metrics").region(7)
    await asyncio.gather(*writers)
    assert fenced == len(writers)
    await history.check(last)
    for region in regions:
        assert await by_table(region) == await by_table(last)

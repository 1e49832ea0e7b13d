"""The layouts of a region: two topics, or two partitions of one."""

import pytest

import cordwood
from cordwood import Client, Conflict, Fenced, InvalidInput
from tests.support.wal.region_contents import by_table

ONE = "one-topic"


async def test_a_region_in_one_topic_lives_through_all_that_one_in_two_does(cw: Client) -> None:
    for life in range(2):
        async with cw.wal("metrics", layout=ONE).region(7) as region:
            assert await region.write(42, [b"a", b"b"]) == range(2 * life + 1, 2 * life + 3)
            assert await region.write(43, [b"c"]) == range(life + 1, life + 2)
            await region.mark_deleted(42, through=2 * life + 1)
            assert await by_table(region) == {42: {2 * life + 2: b"b"}, 43: dict.fromkeys(range(1, life + 2), b"c")}
    async with cw.wal("metrics", layout=ONE).region(7) as region:
        await region.drop_table(43)
    async with cw.wal("metrics", layout=ONE).region(7) as region:
        assert await by_table(region) == {42: {4: b"b"}}
        assert await region.write(43, [b"anew"]) == range(3, 4)
        await region.clean()
        assert region.stats().trimmed_to == region.stats().oldest_offset
    assert await cw.topics("metrics") == ["metrics_region_7"]


async def test_data_are_partition_0_and_what_is_known_of_them_is_partition_1(cw: Client) -> None:
    async with cw.wal("metrics", layout=ONE).region(7) as region:
        await region.write(42, [b"a"])
        await region.mark_deleted(42, through=1)
        assert (await cw.topic("metrics_region_7")).partitions == 2
        assert await cw.log("metrics_region_7", 0).bounds() == (0, 2), "an owner record and a write"
        assert await cw.log("metrics_region_7", 1).bounds() == (0, 2), "an owner record and a mark"
        await region.clean()
        assert await cw.log("metrics_region_7", 0).bounds() == (1, 2)


async def test_regions_are_listed_by_their_layout_and_are_not_the_same(cw: Client) -> None:
    for layout, regions in (("two-topics", [7]), (ONE, [8, 10])):
        for id in regions:
            async with cw.wal("metrics", layout=layout).region(id) as region:
                await region.write(42, [layout.encode()])
    assert await cw.wal("metrics").regions() == [7]
    assert await cw.wal("metrics", layout=ONE).regions() == [8, 10]
    async with cw.wal("metrics", layout=ONE).region(7) as region:
        assert await by_table(region) == {}


async def test_the_newest_owner_wins_in_one_topic_too(cw: Client, url: str) -> None:
    first = await cw.wal("metrics", layout=ONE).region(7)
    await first.write(42, [b"a"])
    async with cw.wal("metrics", layout=ONE).region(7) as second:
        assert await second.write(42, [b"b"]) == range(2, 3)
        with pytest.raises(Fenced):
            await first.write(42, [b"lost"])
        with pytest.raises(Fenced):
            await first.mark_deleted(42, through=1)
        assert await by_table(second) == {42: {1: b"a", 2: b"b"}}
    async with (
        cordwood.connect(url, read_only=True) as readers,
        readers.wal("metrics", layout=ONE).region(7) as region,
    ):
        assert await by_table(region) == {42: {1: b"a", 2: b"b"}}


async def test_a_topic_without_a_second_partition_is_refused(cw: Client) -> None:
    await cw.create_topic("metrics_region_7")
    with pytest.raises(Conflict, match="'metrics_region_7' has 1 partition, and a region in one topic needs 2"):
        await cw.wal("metrics", layout=ONE).region(7)


@pytest.mark.parametrize("engine", ["embedded"])
async def test_another_layout_is_refused_by_name(cw: Client) -> None:
    with pytest.raises(InvalidInput, match="layout is 'three-topics': it is one of 'two-topics', 'one-topic'"):
        cw.wal("metrics", layout="three-topics")


def test_the_blocking_twin_has_it_too(url: str) -> None:
    with cordwood.sync.connect(url) as cw:
        with cw.wal("metrics", layout=ONE).region(7) as region:
            assert region.write(42, [b"a"]) == range(1, 2)
        assert cw.topics("metrics") == ["metrics_region_7"]
        assert cw.wal("metrics", layout=ONE).regions() == [7]

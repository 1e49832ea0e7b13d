"""Writing a region and opening it again."""

import asyncio
import tracemalloc
from collections.abc import Sequence

import pytest

import cordwood
from cordwood import Batch, Client, InvalidInput, NotFound, Region, Timeout, TooLarge, Unavailable
from cordwood.wal.formats import pending
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_internals import data_of, writer_of

ID_MAX = 2**63 - 1


async def test_numbers_of_a_table_begin_at_1_and_go_on_over_every_opening(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        assert await region.write(42, [b"a", b"b"]) == range(1, 3)
        assert await region.write(43, [b"c"]) == range(1, 2)
        assert await region.write(42, [b"d"]) == range(3, 4)
    for opening in range(3):
        async with cw.wal("metrics").region(7) as region:
            assert await region.write(42, [b"e"]) == range(4 + opening, 5 + opening)
    assert region.id == 7


async def test_what_was_written_is_there_after_the_connection_was_closed(url: str) -> None:
    for life in range(3):
        async with cordwood.connect(url) as cw, cw.wal("metrics").region(0) as region:
            assert (await by_table(region)).get(ID_MAX, {}) == {n + 1: b"%d" % n for n in range(life)}
            await region.write(ID_MAX, [b"%d" % life])


async def test_a_write_is_one_place_in_the_log(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        await region.write(42, [b"a", b"", b"c" * 1000])
        await region.write(43, [b"d"])
        assert await taken(region.replay()) == [
            (42, range(1, 4), [b"a", b"", b"c" * 1000]),
            (43, range(1, 2), [b"d"]),
        ]
        tables = region.tables()
        assert list(tables) == [42, 43]
        assert tables[42].next_sequence == 4
        assert tables[42].high_watermark == tables[43].mapping[1]


async def test_tables_are_the_same_after_an_opening(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        for step in range(200):
            await region.write(step % 3, [b"x"] * (1 + step % 4))
        before = region.tables()
    async with cw.wal("metrics").region(7) as region:
        assert region.tables() == before


async def test_many_tables_are_written_at_once_each_in_its_order(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:

        async def fill(table: int) -> None:
            for step in range(20):
                first = 1 + 3 * step
                assert await region.write(table, [b"%d.%d.%d" % (table, step, i) for i in range(3)]) == range(
                    first, first + 3
                )

        await asyncio.gather(*(fill(table) for table in range(100)))
        expected = {
            t: {1 + 3 * s + i: b"%d.%d.%d" % (t, s, i) for s in range(20) for i in range(3)} for t in range(100)
        }
        assert await by_table(region) == expected


async def test_concurrent_writes_of_a_table_keep_the_order_of_the_calls(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        done = await asyncio.gather(*(region.write(42, [b"%d" % n]) for n in range(500)))
        assert done == [range(n + 1, n + 2) for n in range(500)]
        assert (await by_table(region))[42] == {n + 1: b"%d" % n for n in range(500)}


async def test_write_many_writes_each_table(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        assert await region.write_many({42: [b"a"], 43: [b"b", b"c"]}) == {42: range(1, 2), 43: range(1, 3)}
        assert await region.write_many({43: [b"d"]}, timeout=30) == {43: range(3, 4)}
        assert await region.write_many({}) == {}
        assert await by_table(region) == {42: {1: b"a"}, 43: {1: b"b", 2: b"c", 3: b"d"}}


async def test_what_cannot_be_written_is_refused_before_anything_has_a_number(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        too_large = [b"x" * 1000] * 3000
        for call in (region.write(42, too_large), region.write_many({41: [b"a"], 42: too_large})):
            with pytest.raises(TooLarge, match=r"42: 3000 payloads are 30\d* bytes as a record, the limit") as large:
                await call
            assert large.value.outcome == "not_written"
        with pytest.raises(InvalidInput, match="at least 1 payload") as empty:
            await region.write_many({41: [b"a"], 42: []})
        assert empty.value.outcome == "not_written"
        for wrong in (-1, ID_MAX + 1):
            with pytest.raises(InvalidInput, match=f"table {wrong}: ids are from 0 to {ID_MAX}"):
                await region.write(wrong, [b"x"])
        with pytest.raises(TypeError):
            await region.write(42, [b"x", None])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            await region.write("42", [b"x"])  # type: ignore[arg-type]
        assert region.tables() == {}
        assert await region.write(42, [b"x"]) == range(1, 2)


@pytest.mark.parametrize("codec", ["cordwood", "rfc"])
async def test_a_write_of_gigabytes_is_refused_before_anything_is_made_of_it(cw: Client, codec: str) -> None:
    async with cw.wal("metrics", codec=codec).region(7) as region:
        gigabytes = [bytes(1 << 20)] * 2048  # of one object
        tracemalloc.start()
        try:
            for call in (region.write(42, gigabytes), region.write_many({41: [b"a"], 42: gigabytes})):
                with pytest.raises(TooLarge, match="42: 2048 payloads are 2147"):
                    await call
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


async def test_the_largest_write_fits(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        limit = writer_of(region)._record_bytes_max
        largest = limit - 64 - 8
        with pytest.raises(TooLarge):
            await region.write(42, [b"x" * (largest + 1)])
        await asyncio.gather(*(region.write(42, [b"x" * largest]) for _ in range(3)))
        assert [len(payloads[0] or b"") for _, _, payloads in await taken(region.replay())] == [largest] * 3


async def test_more_writes_than_may_be_pending_wait_for_room(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "PENDING_BYTES_MAX", 1000)
    async with cw.wal("metrics").region(7) as region:
        await asyncio.gather(*(region.write(table, [b"x" * 200]) for table in range(100) for _ in range(3)))
        assert {table: len(entries) for table, entries in (await by_table(region)).items()} == dict.fromkeys(
            range(100), 3
        )
        assert writer_of(region)._pending_bytes == 0


@pytest.mark.parametrize("codec", ["cordwood", "rfc"])
async def test_writes_that_wait_for_room_keep_the_order_of_the_calls(
    cw: Client, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(pending, "PENDING_BYTES_MAX", 1000)
    called: list[int] = []
    numbers: dict[int, int] = {}
    async with cw.wal("metrics", codec=codec).region(7) as region:

        async def write(call: int) -> None:
            called.append(call)
            (numbers[call],) = await region.write(42, [b"%d" % call + bytes(500)])

        async def write_on(caller: int) -> None:
            """A writer that was just acked finds room, while others wait for it."""
            for step in range(5):
                await write(10 * step + caller)

        tasks = [asyncio.create_task(write_on(caller)) for caller in range(7)]
        await asyncio.sleep(0)
        tasks.pop(4).cancel()  # it is in the queue
        await asyncio.gather(*tasks)
    called.remove(4)
    assert sorted(numbers, key=numbers.__getitem__) == called


@pytest.mark.parametrize("codec", ["cordwood", "rfc"])
async def test_a_list_that_changes_while_its_write_waits_changes_no_write(
    cw: Client, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(pending, "PENDING_BYTES_MAX", 1000)
    async with cw.wal("metrics", codec=codec).region(7) as region:
        first = asyncio.create_task(region.write(41, [bytes(1000)]))
        await asyncio.sleep(0)
        one, many = [b"a"], [b"b", b"c"]
        waiting = asyncio.gather(region.write(42, one), region.write_many({43: many}))
        await asyncio.sleep(0)
        assert not first.done()
        one += [b"x"] * 6
        many.clear()
        assert tuple(await waiting) == (range(1, 2), {43: range(1, 3)})
        await first
    async with cw.wal("metrics", codec=codec).region(7) as region:
        tables = await by_table(region)
    assert (tables[42], tables[43]) == ({1: b"a"}, {1: b"b", 2: b"c"})


async def test_a_write_that_finds_no_room_in_time_is_not_written(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cw.wal("metrics").region(7) as region:
        monkeypatch.setattr(pending, "PENDING_BYTES_MAX", 0)
        with pytest.raises(Timeout, match="still under way when the time ran out") as late:
            await region.write(42, [b"x"], timeout=0.01)
        assert late.value.outcome == "not_written"
        assert region.tables() == {}


@pytest.mark.parametrize("many", [False, True])
async def test_the_time_of_a_write_is_for_its_room_and_its_append_together(
    cw: Client, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    loop = asyncio.get_running_loop()
    time, passed = loop.time, 0.0
    go_on = asyncio.Event()

    async def room(timeout: float | None) -> None:
        nonlocal passed
        passed = timeout or 0.0

    async def append(batch: Batch, *, timeout: float | None = None) -> Sequence[int]:
        await go_on.wait()
        return await write_on(batch)

    async with cw.wal("metrics").region(7) as region:
        writer, log = writer_of(region), data_of(region).log
        write_on = log.append
        with monkeypatch.context() as slow:
            slow.setattr(log, "append", append)
            slow.setattr(writer, "room", room)
            slow.setattr(type(writer), "full", True)
            slow.setattr(loop, "time", lambda: time() + passed)
            late = region.write_many({42: [b"x"]}, timeout=20) if many else region.write(42, [b"x"], timeout=20)
            writing = asyncio.ensure_future(late)
            done, _ = await asyncio.wait([writing], timeout=25)  # 20 of them pass at once
            go_on.set()
            assert done, "it began to count anew when it had found room"
            with pytest.raises(Timeout, match="table 42 took more than 20 s") as over:
                await writing
            assert over.value.outcome == "unknown"
        assert await region.write(42, [b"y"]) == range(2, 3)


async def test_a_cancelled_write_ends_no_other_and_its_numbers_stay_used(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        tasks = [asyncio.create_task(region.write(42, [b"%d" % n])) for n in range(300)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert await region.write(42, [b"last"]) == range(301, 302)
        logs = (await by_table(region))[42]
        for n, result in enumerate(results):
            if isinstance(result, range):
                assert result == range(n + 1, n + 2)
                assert logs[n + 1] == b"%d" % n
            else:
                assert logs.get(n + 1) in (None, b"%d" % n)


async def test_a_write_whose_time_is_over_may_become_durable(cw: Client) -> None:
    async with cw.wal("metrics").region(7) as region:
        with pytest.raises(Timeout, match="table 42 took more than 0 s") as late:
            await region.write(42, [b"a"], timeout=0)
        assert late.value.outcome == "unknown"
        with pytest.raises(Timeout) as many:
            await region.write_many({43: [b"b"]}, timeout=0)
        assert (many.value.written, many.value.unknown) == ({}, {43: range(1, 2)})
        assert await region.write(42, [b"c"]) == range(2, 3)
        assert (await by_table(region))[42][2] == b"c"


async def test_regions_are_found_by_the_name_of_their_topics(cw: Client) -> None:
    wal = cw.wal("metrics")
    assert await wal.regions() == []
    for id in (10, 9, 0, ID_MAX):
        await wal.region(id)
    await cw.create_topic("metrics_data_x")
    await cw.create_topic("metrics_data_007")
    await cw.wal("metrics_data_3").region(5)
    assert await wal.regions() == [0, 9, 10, ID_MAX]
    assert "metrics_meta_9" in await cw.topics()


async def test_a_region_that_is_missing_is_not_found_or_made(cw: Client) -> None:
    wal = cw.wal("metrics")
    with pytest.raises(NotFound, match="'metrics' has no region 7"):
        await wal.region(7, create=False)
    assert await cw.topics("metrics") == []
    await wal.region(7)
    await wal.region(7, create=False)
    for wrong in (-1, ID_MAX + 1):
        with pytest.raises(InvalidInput, match=f"region {wrong}: ids are from 0"):
            wal.region(wrong)
    with pytest.raises(InvalidInput, match="cannot name a topic"):
        cw.wal("a/b")
    with pytest.raises(InvalidInput, match="223 characters; at most 222"):
        cw.wal("a" * 223)
    await cw.wal("a" * 222).region(ID_MAX)


async def test_the_same_object_gives_back_the_region_that_it_has_open(cw: Client) -> None:
    wal = cw.wal("metrics")
    first, second = await asyncio.gather(wal.region(7), wal.region(7))
    assert first is second
    await first.close()
    third = await wal.region(7)
    assert third is not first
    await third.write(42, [b"x"])


async def test_a_region_that_cannot_be_opened_holds_up_no_other(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = cw.wal("metrics")
    opening, opened = asyncio.Event(), wal._open_region

    async def stuck(id: int, create: bool, timeout: float) -> Region:
        if id == 6:
            opening.set()
            await asyncio.Event().wait()
        return await opened(id, create, timeout)

    monkeypatch.setattr(wal, "_open_region", stuck)
    never = asyncio.ensure_future(wal.region(6))
    await opening.wait()
    await (await wal.region(7, timeout=30)).write(42, [b"a"])
    never.cancel()
    await wal.close()


@pytest.mark.parametrize("what", ["the log", "the connection"])
async def test_a_region_that_is_opened_while_the_log_is_closed_is_closed_too(
    cw: Client, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    wal = cw.wal("metrics")
    made: list[Region] = []
    opening, go_on, opened = asyncio.Event(), asyncio.Event(), wal._open_region

    async def slow(id: int, create: bool, timeout: float) -> Region:
        made.append(await opened(id, create, timeout))
        opening.set()
        await go_on.wait()
        return made[0]

    monkeypatch.setattr(wal, "_open_region", slow)
    late = asyncio.ensure_future(wal.region(7))
    await opening.wait()
    await (wal.close() if what == "the log" else cw.close())
    go_on.set()
    with pytest.raises(Unavailable, match="is closed: ask" if what == "the log" else "the connection .* is closed"):
        await late
    with pytest.raises(Unavailable, match="is closed"):
        await made[0].write(42, [b"a"])
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "cordwood-clean"]


async def test_what_is_closed_says_so(cw: Client) -> None:
    wal = cw.wal("metrics")
    region = await wal.region(7)
    await region.close()
    await region.close()
    for call in (lambda: region.tables(), lambda: region.replay(), lambda: region.read(42)):
        with pytest.raises(Unavailable, match="region 7 in metrics_data_7/0 is closed: open it again"):
            call()
    with pytest.raises(Unavailable, match="is closed") as closed:
        await region.write(42, [b"x"])
    assert closed.value.outcome == "not_written"
    other = await wal.region(8)
    await wal.close()
    with pytest.raises(Unavailable):
        await other.write(42, [b"x"])
    with pytest.raises(Unavailable, match="'metrics' is closed"):
        wal.region(7)


async def test_closing_finishes_the_writes_under_way(url: str) -> None:
    async with cordwood.connect(url) as cw:
        region = await cw.wal("metrics").region(7)
        writes = [asyncio.create_task(region.write(n % 7, [b"x" * 500])) for n in range(200)]
        await asyncio.sleep(0)
    assert all(len(done) == 1 for done in await asyncio.gather(*writes))
    async with cordwood.connect(url) as cw, cw.wal("metrics").region(7) as region:
        assert sum(map(len, (await by_table(region)).values())) == 200


def test_a_region_belongs_to_the_loop_that_opened_it(url: str) -> None:
    async def opened() -> tuple[Client, Region]:
        cw = await cordwood.connect(url)
        return cw, await cw.wal("metrics").region(7)

    async def used(cw: Client, region: Region) -> None:
        with pytest.raises(Unavailable, match="opened in another event loop") as other:
            await region.write(42, [b"x"])
        assert other.value.outcome == "not_written"
        await cw.close()

    cw, region = asyncio.run(opened())
    asyncio.run(used(cw, region))


async def test_of_openings_that_are_over_nothing_is_kept(cw: Client) -> None:
    wal = cw.wal("metrics")
    first, second = await asyncio.gather(wal.region(7), wal.region(7))
    assert first is second
    with pytest.raises(NotFound):
        await wal.region(8, create=False)
    assert not wal._opening

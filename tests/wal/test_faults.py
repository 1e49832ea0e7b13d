"""R11: whatever becomes of an append, an ack is never lost, and nothing counts twice."""

import asyncio
from typing import Any

import pytest

from cordwood import Batch, Client, CordwoodError, Fenced, Region, Timeout, Unavailable, Wal
from cordwood.simulation.faulty_log import FAULTS, FaultyEngine, FaultyLog
from cordwood.wal.formats.cordwood.data_record import encode_owner
from cordwood.wal.record import OwnerRecord
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_history import History
from tests.support.wal.region_internals import data_of, writer_of


@pytest.mark.parametrize("fault", FAULTS)
async def test_r11_an_append_that_goes_wrong_once_is_made_good(cw: Client, fault: str) -> None:
    engine = FaultyEngine(cw, 0, 0, [fault])
    async with engine.wal("metrics").region(7) as region:
        (log,) = engine.logs
        assert await region.write(42, [b"a"]) == range(1, 2)
        log.odds = 1
        failing = asyncio.create_task(region.write(42, [b"b", b"c"]))
        await log.went_wrong.wait()
        engine.heal()
        assert await failing == range(2, 4), "its caller does not notice"
        assert await region.write(43, [b"d"]) == range(1, 2)
        await engine.settle()
        assert await region.write(42, [b"e"]) == range(4, 5)
        expected = [(42, [b"a"]), (42, [b"b", b"c"]), (43, [b"d"]), (42, [b"e"])]
        assert [(table, payloads) for table, _, payloads in await taken(region.replay())] == expected
        tables = region.tables()
    async with cw.wal("metrics").region(7) as region:
        assert region.tables() == tables


@pytest.mark.parametrize("seed", range(25))
async def test_r11_under_any_faults_no_ack_is_lost_and_nothing_comes_twice(cw: Client, seed: int) -> None:
    engine = FaultyEngine(cw, seed, 0)
    history = History()
    region = await engine.wal("metrics").region(7)
    for log in engine.logs:
        log.odds = 0.3

    async def fill(table: int) -> None:
        for step in range(15):
            await history.write(region, table, [b"%d.%d.%d" % (table, step, i) for i in range(1 + step % 3)])

    await asyncio.gather(*(fill(table) for table in range(6)))
    engine.heal()
    await engine.settle()
    assert await history.write(region, 99, [b"well again"]) is None
    await history.check(region)
    async with cw.wal("metrics").region(7) as reopened:
        await history.check(reopened)
        for table in range(6):
            numbers = await reopened.write(table, [b"new"])
            assert numbers.start > max((n for t, n in history.acked if t == table), default=0)


@pytest.mark.parametrize("seed", range(10))
async def test_r10_r11_owners_change_under_faults_and_no_ack_is_lost(cw: Client, seed: int) -> None:
    history = History()
    engine = FaultyEngine(cw, seed, 0)
    number = iter(range(1_000_000))

    async def own_for_a_while() -> None:
        try:
            region = await engine.wal("metrics").region(7)
        except CordwoodError:
            return
        for log in engine.logs:
            log.odds = 0.15

        async def fill(table: int) -> None:
            for _ in range(10):
                error = await history.write(region, table, [b"%d" % next(number), b"%d" % next(number)])
                if isinstance(error, Fenced):
                    return

        await asyncio.gather(*(fill(table) for table in range(4)))

    for _ in range(3):
        await asyncio.gather(*(own_for_a_while() for _ in range(3)))
    engine.heal()
    await engine.settle()
    async with cw.wal("metrics").region(7) as region:
        await history.check(region)


async def test_r11_a_renewal_does_not_take_the_region_back_from_a_newer_owner(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FaultyEngine(cw, 0, 0, ["lost"])
    old = await engine.wal("metrics").region(7)
    renew = data_of(old).renew
    newer = []

    async def overtaken(*arguments: Any) -> None:
        # The newer owner opens after the old one has looked, and before its renewal is in the log.
        newer.append(await cw.wal("metrics").region(7))
        engine.heal()
        await renew(*arguments)

    monkeypatch.setattr(data_of(old), "renew", overtaken)
    engine.logs[0].odds = 1
    with pytest.raises(Fenced) as gone:
        await old.write(42, [b"old"])
    assert gone.value.outcome == "not_written"
    (new,) = newer
    assert await new.write(42, [b"new"]) == range(1, 2)
    assert await by_table(new) == {42: {1: b"new"}}


async def test_a_write_that_cannot_be_resolved_fails_and_the_region_recovers(cw: Client) -> None:
    engine = FaultyEngine(cw, 0, 0, ["refused"])
    async with engine.wal("metrics").region(7) as region:
        engine.logs[0].odds = 1
        with pytest.raises(Unavailable, match="the disk is full") as full:
            await region.write_many({1: [b"a"], 2: [b"b"]})
        assert (full.value.outcome, full.value.written, full.value.unknown) == ("not_written", {}, {})
        engine.heal()
        numbers = await region.write(1, [b"c"])
        assert await by_table(region) == {1: {numbers.start: b"c"}}
        assert data_of(region).state.fence.running_count >= numbers.start, "the running count is above every number"
    engine = FaultyEngine(cw, 0, 0, ["lost"])
    async with engine.wal("metrics").region(7) as region:
        engine.logs[0].odds = 1
        with pytest.raises(CordwoodError) as lost:
            await region.write(1, [b"d"])
        assert lost.value.outcome == "unknown"
        engine.heal()
        await region.write(1, [b"e"])
        assert [payloads for _, _, payloads in await taken(region.replay())] == [[b"c"], [b"e"]]


async def test_a_second_attempt_that_may_be_written_is_unknown(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FaultyEngine(cw, 0, 0, ["refused"])
    region = await engine.wal("metrics").region(7)
    (log,) = engine.logs
    renew, catch_up = data_of(region).renew, data_of(region).catch_up

    async def renewed(*arguments: Any) -> None:
        log.odds = 0
        await renew(*arguments)
        # The second attempt will be written after a gap, and nobody can read the gap.
        await cw.log("metrics_data_7").append(Batch.of([encode_owner(7, OwnerRecord(99, 0, 5, "void"))]))
        monkeypatch.setattr(data_of(region), "catch_up", blind)

    async def blind(*arguments: Any, **settings: Any) -> None:
        raise Unavailable("cannot be read", reason="unreachable")

    monkeypatch.setattr(data_of(region), "renew", renewed)
    log.odds = 1
    with pytest.raises(Unavailable, match="cannot be read") as failed:
        await region.write(42, [b"a"])
    assert failed.value.outcome == "unknown"
    monkeypatch.setattr(data_of(region), "catch_up", catch_up)
    monkeypatch.setattr(data_of(region), "renew", renew)
    await region.write(42, [b"b"])
    assert await by_table(region) == {42: {1: b"a", 2: b"b"}}


async def test_r15_the_last_owner_record_counts_writes_during_its_open(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await cw.wal("metrics").region(7)
    append = FaultyLog.append

    async def late(self: FaultyLog, *arguments: Any, **settings: Any) -> Any:
        if not old.tables():
            await old.write(42, [b"x"] * 9)  # after the opening has looked, and before its owner record is in the log
        return await append(self, *arguments, **settings)

    monkeypatch.setattr(FaultyLog, "append", late)
    region = await FaultyEngine(cw, 0, 0).wal("metrics").region(7)
    assert region.tables()[42].next_sequence == 10
    log = cw.log("metrics_data_7")
    await log.trim(before=(await log.bounds())[1] - 1)
    async with cw.wal("metrics").region(7) as region:
        assert await region.write(42, [b"y"]) == range(10, 11)


async def test_r15_numbers_of_writes_that_were_never_sent_do_not_come_back(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FaultyEngine(cw, 0, 0)
    region = await engine.wal("metrics").region(7)
    (log,) = engine.logs
    waiting: list[asyncio.Task[range]] = []
    appends = 0

    async def down(batch: Batch, **settings: Any) -> Any:
        nonlocal appends
        appends += 1
        if appends == 2:  # the renewal: later writes wait for its outcome
            waiting.append(asyncio.create_task(region.write(42, [b"b"] * 100)))
            await asyncio.sleep(0.01)
        raise Unavailable("no broker answers", outcome="not_written", reason="unreachable")

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", down)
        with pytest.raises(Unavailable):
            await region.write(42, [b"a"])
    (never_sent,) = waiting
    with pytest.raises(Unavailable):
        await never_sent
    assert await region.write(42, [b"c"]) == range(102, 103)
    await lose_all_but_the_count(cw, region)
    async with cw.wal("metrics").region(7) as rebuilt:
        assert (await rebuilt.write(42, [b"d"])).start > 102


async def test_r15_numbers_that_a_drop_covers_and_no_write_has_do_not_come_back(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FaultyEngine(cw, 0, 0)
    old = await engine.wal("metrics").region(7)
    (log,) = engine.logs
    over = asyncio.Event()

    async def hangs(batch: Batch, **settings: Any) -> Any:
        await over.wait()
        raise Unavailable("no broker answers", outcome="not_written", reason="unreachable")

    monkeypatch.setattr(log, "append", hangs)
    under_way = asyncio.create_task(old.write(42, [b"a"] * 100))
    await asyncio.sleep(0.01)
    await old.drop_table(42)
    region = await cw.wal("metrics").region(7)
    over.set()
    with pytest.raises(Fenced):
        await under_way
    assert await region.write(42, [b"b"]) == range(101, 102)
    await lose_all_but_the_count(cw, region)
    async with cw.wal("metrics").region(7) as rebuilt:
        assert (await rebuilt.write(42, [b"c"])).start > 101


async def test_r15_what_a_clean_leaves_is_a_record_that_counts(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FaultyEngine(cw, 0, 0)
    region = await engine.wal("metrics").region(7)
    (log,) = engine.logs
    append = log.append
    first: list[Batch] = []

    async def noted(batch: Batch, **settings: Any) -> Any:
        first.append(batch)
        return await append(batch, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", noted)
        await region.write(42, [b"a"])
    for _ in range(10):
        await region.write(42, [b"b"] * 10)

    async def no_answer(batch: Batch, **settings: Any) -> Any:
        await append(batch, **settings)
        await append(first[0])  # a copy of the first write lands behind this one, before anybody looks
        raise Timeout("no answer", outcome="unknown")

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", no_answer)
        assert await region.write(42, [b"c"]) == range(102, 103)
    await region.mark_deleted(42, through=102)
    await region.clean()
    await region.close()
    await cw.delete_topic("metrics_meta_7")
    async with cw.wal("metrics").region(7) as rebuilt:
        assert 1 not in (await by_table(rebuilt)).get(42, {}), "long deleted, and never there twice"
        assert (await rebuilt.write(42, [b"d"])).start > 102


async def lose_all_but_the_count(cw: Client, region: Region) -> None:
    """All is dropped and cleaned, and then the meta log is lost: only a record of a new table is left."""
    await region.write(99, [b"the last"])
    for table in region.tables():
        await region.drop_table(table)
    await region.clean()
    await region.close()
    await cw.delete_topic("metrics_meta_7")


@pytest.mark.parametrize("codec", ["cordwood", "rfc"])
async def test_writes_are_decided_though_the_resolving_task_is_cancelled(
    cw: Client, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    """As at the end of a loop, with all its tasks: the region is closed after that."""
    engine = FaultyEngine(cw, 0, 0, ["lost"])
    wal = Wal(engine, "metrics", timeout=30, read_only=False, on_open=lambda region: None, codec=codec)
    region = await wal.region(7)
    looking: asyncio.Future[asyncio.Task[Any] | None] = asyncio.get_running_loop().create_future()

    async def look(*arguments: Any, **settings: Any) -> None:
        looking.set_result(asyncio.current_task())
        await asyncio.Event().wait()

    with monkeypatch.context() as hanging:
        hanging.setattr(region._data, "catch_up", look)
        engine.logs[0].odds = 1
        lost = asyncio.create_task(region.write(1, [b"a"]))
        task = await looking
        behind = asyncio.create_task(region.write(2, [b"b"]))
        await asyncio.sleep(0)
        assert task is not None
        task.cancel()
        async with asyncio.timeout(10):
            outcomes = await asyncio.gather(lost, behind, return_exceptions=True)
    assert [getattr(error, "outcome", None) for error in outcomes] == ["unknown", "not_written"]
    engine.heal()
    async with asyncio.timeout(10):
        assert await region.write(3, [b"c"]) == range(1, 2)
        await region.close()


async def test_writes_are_decided_though_the_resolving_task_never_begins(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FaultyEngine(cw, 0, 0, ["lost"])
    region = await engine.wal("metrics").region(7)
    writer = writer_of(region)
    resolve_soon = writer._resolve_soon

    def cancelled_at_once(*, renew: bool) -> None:
        resolve_soon(renew=renew)
        assert writer._resolving is not None
        writer._resolving.cancel()

    with monkeypatch.context() as ending:
        ending.setattr(writer, "_resolve_soon", cancelled_at_once)
        engine.logs[0].odds = 1
        async with asyncio.timeout(10):
            with pytest.raises(Unavailable) as lost:
                await region.write(1, [b"a"])
    assert lost.value.outcome == "unknown"
    engine.heal()
    async with asyncio.timeout(10):
        assert await region.write(1, [b"b"]) == range(2, 3)
        await region.close()


async def test_r11_a_failed_append_stops_sending_until_all_have_returned(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two appends are under way, and the second fails first: a third write waits for the first append, too."""
    region = await cw.wal("metrics").region(7)
    log = data_of(region).log
    append = log.append
    first_may_go, calls = asyncio.Event(), 0

    async def odd(batch: Batch, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await first_may_go.wait()
        elif calls == 2:
            raise Unavailable("no answer", outcome="unknown", reason="unreachable")
        return await append(batch, **settings)

    monkeypatch.setattr(log, "append", odd)
    writes = []
    for table in (1, 2, 3):
        writes.append(asyncio.create_task(region.write(table, [b"a"])))
        for _ in range(5):
            await asyncio.sleep(0)
    sent = calls
    first_may_go.set()
    assert await asyncio.gather(*writes) == [range(1, 2)] * 3
    assert sent == 2
    assert await by_table(region) == {1: {1: b"a"}, 2: {1: b"a"}, 3: {1: b"a"}}
    await region.close()

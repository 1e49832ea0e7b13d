"""Regions in the records of the proposal: one record a log, `is_start`, and no owners."""

import asyncio
from collections.abc import Sequence
from struct import pack
from typing import Any

import pytest

import cordwood
from cordwood import (
    Batch,
    Client,
    Corrupt,
    Fenced,
    InvalidInput,
    Log,
    TableEntries,
    Timeout,
    TooLarge,
    Unavailable,
    Wal,
)
from cordwood.simulation.faulty_log import FAULTS, FaultyEngine
from cordwood.wal.formats.entrywise.codec import EntryKey, Known
from cordwood.wal.formats.entrywise.rfc import meta_writer as rfc_meta_writer
from cordwood.wal.formats.entrywise.rfc.codec import RfcCodec, encode_key, encode_mark
from tests.support.wal.region_contents import by_table, taken
from tests.support.wal.region_internals import rfc_meta_writer_of

CODEC = RfcCodec()


def wal(cw: Client, *, layout: str = "two-topics") -> Wal:
    return cw.wal("metrics", codec="rfc", layout=layout, clean_every=None)


async def records(log: Log) -> list[tuple[int, int, int, bytes]]:
    """(table, number, is_start, payload) of each record."""
    found = []
    async for batch in log.read():
        for record in batch:
            assert record.key is not None
            assert record.value is not None
            version, table, sequence, is_start = int(record.key[0]), *_numbers(record.key)
            assert version == record.value[0] == 0
            found.append((table, sequence, is_start, record.value[1:]))
    return found


def _numbers(key: bytes) -> tuple[int, int, int]:
    return int.from_bytes(key[1:5]), int.from_bytes(key[5:13]), key[13]


def test_the_proposal_s_bytes() -> None:
    key = bytes.fromhex("00 00000007 0000000000000003 01")
    assert encode_key(EntryKey(7, 3, True)) == key
    assert CODEC.decode_key(key, 0, "log", 0) == (7, 3, True)
    mark = bytes.fromhex("00 00000007"), bytes.fromhex("00 0000000000000003")
    assert encode_mark(7, 3) == mark
    assert CODEC.decode_meta(*mark, 0, "log", 0) == [Known(table=7, next_sequence=3, deleted_through=2)]


async def test_a_region_lives_through_openings_marks_and_cleaning(cw: Client) -> None:
    for layout in ("two-topics", "one-topic"):
        expected: dict[int, dict[int, bytes]] = {}
        for life in range(3):
            async with wal(cw, layout=layout).region(7) as region:
                assert await region.write(42, [b"a", b""]) == range(2 * life + 1, 2 * life + 3)
                assert await region.write_many({43: [b"c"], 44: [b"d"]}) == {
                    43: range(life + 1, life + 2),
                    44: range(life + 1, life + 2),
                }
                await region.mark_deleted(42, through=2 * life + 1)
                await region.mark_deleted(44, through=life + 1)
                expected = {42: {2 * life + 2: b""}, 43: dict.fromkeys(range(1, life + 2), b"c")}
                assert await by_table(region) == expected
        async with wal(cw, layout=layout).region(7) as region:
            assert await by_table(region) == expected
            tables = region.tables()
            assert {table: (meta.next_sequence, meta.deleted_through) for table, meta in tables.items()} == {
                42: (7, 5),
                43: (4, 0),
                44: (4, 3),
            }
            found: dict[int, list[bytes | None]] = {}

            async def apply(table: int, entries: TableEntries, found: dict[int, list[bytes | None]] = found) -> None:
                found.setdefault(table, []).extend(entries.payloads)

            assert (await region.recover(apply)).failed == {}
            assert found == {42: [b""], 43: [b"c"] * 3}
            assert await taken(region.read(43, start=2, stop=3)) == [(43, range(2, 3), [b"c"])]
        assert await wal(cw, layout=layout).regions() == [7]


async def test_a_write_is_one_append_of_a_record_per_entry_and_an_open_is_none(cw: Client) -> None:
    async with wal(cw).region(7):
        pass
    assert await cw.log("metrics_data_7").bounds() == await cw.log("metrics_meta_7").bounds() == (0, 0)
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a", b"b"])
        await region.write(2**32 - 1, [b"c"])
        await region.snapshot()
    assert await records(cw.log("metrics_data_7")) == [
        (42, 1, 1, b"a"),
        (42, 2, 0, b"b"),
        (2**32 - 1, 1, 1, b"c"),
    ]
    assert await cw.log("metrics_meta_7").bounds() == (0, 0), "there is nothing to write for a snapshot"


async def test_ids_of_tables_have_32_bits(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        for refused in (region.write(2**32, [b"a"]), region.drop_table(2**32)):
            with pytest.raises(InvalidInput, match=f"table {2**32}: ids are from 0 to {2**32 - 1}"):
                await refused
        with pytest.raises(InvalidInput, match=f"table {2**32}"):
            region.read(2**32)


async def test_r17_is_start_says_that_all_before_it_is_deleted(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a", b"b"])
        await region.mark_deleted(42, through=1)
        await region.write(42, [b"c"])
        await region.mark_deleted(42, through=3)
        await region.write(42, [b"d", b"e"])
    found = {sequence: is_start for _, sequence, is_start, _ in await records(cw.log("metrics_data_7"))}
    assert found == {1: 1, 2: 0, 3: 0, 4: 1, 5: 0}


async def test_r17_a_write_under_way_is_not_deleted_by_the_next_one(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a"])
        await region.mark_deleted(42, through=1)
        numbers = await asyncio.gather(*(region.write(42, [b"%d" % n]) for n in range(10)))
        assert numbers == [range(n + 2, n + 3) for n in range(10)]
    found = await records(cw.log("metrics_data_7"))
    assert [sequence for _, sequence, is_start, _ in found if is_start] == [1, 2]
    async with wal(cw).region(7) as region:
        assert len((await by_table(region))[42]) == 10


async def test_r17_is_start_makes_good_for_a_mark_that_was_lost(cw: Client, caplog: pytest.LogCaptureFixture) -> None:
    # The proposal's picture: Start 1 of a table, Start 1 of another, 2 of the first; both are deleted, and the
    # mark of the first is lost; then its Start 3, and 2 of the other.
    async with wal(cw).region(7) as region:
        await region.write(1, [b"a"])
        await region.write(2, [b"b"])
        await region.write(1, [b"c"])
        await region.mark_deleted(1, through=2)
        await region.write(1, [b"d"])
        await region.write(2, [b"e"])
    meta = cw.log("metrics_meta_7")
    await meta.trim((await meta.bounds())[1])
    async with wal(cw).region(7) as region:
        assert "metrics_meta_7/0 was emptied" in caplog.text
        assert await by_table(region) == {1: {3: b"d"}, 2: {1: b"b", 2: b"e"}}
        assert region.tables()[1].deleted_through == 2
        assert await region.write(1, [b"f"]) == range(4, 5)


async def test_cleaning_trims_to_the_oldest_live_log(cw: Client) -> None:
    log = cw.log("metrics_data_7")
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a", b"b"])
        await region.write(43, [b"c"])
        await region.mark_deleted(42, through=2)
        await region.clean()
        assert await log.bounds() == (2, 3)
        assert region.stats().held_by == 43


async def test_r15_numbers_go_on_where_all_is_deleted_and_trimmed(cw: Client) -> None:
    log = cw.log("metrics_data_7")
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a", b"b"])
        await region.write(43, [b"c"])
        await region.drop_table(42)
        await region.drop_table(43)
        await region.clean()
        assert await log.bounds() == (2, 3), "all but the last record"
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {}
        assert await region.write_many({42: [b"d"], 43: [b"e"]}) == {42: range(3, 4), 43: range(2, 3)}
    assert [is_start for _, _, is_start, _ in await records(log)][-2:] == [1, 1]


async def test_a_dropped_table_is_one_that_has_no_logs(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a"])
        await region.drop_table(42)
        await region.drop_table(42)
        await region.drop_table(44)
        before = region.tables()
        assert before[42].deleted_through == 1
        assert await cw.log("metrics_meta_7").bounds() == (0, 1)
    async with wal(cw).region(7) as region:
        assert region.tables().keys() == before.keys()


async def test_another_writer_s_record_between_our_own_is_the_end(cw: Client) -> None:
    first = await wal(cw).region(7)
    await first.write(42, [b"a"])
    second = await wal(cw).region(7)
    assert await second.write(42, [b"b"]) == range(2, 3)
    with pytest.raises(Fenced, match="the record at offset 1 of metrics_data_7/0 is not of this writer") as fenced:
        await first.write(42, [b"c"])
    assert fenced.value.outcome == "unknown", "it is in the log"
    for refused in (first.write(42, [b"d"]), first.mark_deleted(42, through=1), first.clean()):
        with pytest.raises(Fenced):
            await refused
    again = await wal(cw).region(7)
    assert again.tables()[42].next_sequence == 3


async def test_a_writer_behind_whom_another_one_has_trimmed_is_fenced_too(cw: Client) -> None:
    first = await wal(cw).region(7)
    await first.write(42, [b"a"])
    second = await wal(cw).region(7)
    await second.write(42, [b"b"])
    await second.write(43, [b"c"])
    await second.drop_table(42)
    await second.clean()
    with pytest.raises(Fenced, match="was trimmed before 2 by another owner") as fenced:
        await first.write(42, [b"d"])
    assert fenced.value.outcome == "unknown"


async def test_a_region_of_another_codec_is_refused_and_left_as_it_is(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a"])
    async with cw.wal("metrics").region(8) as region:
        await region.write(42, [b"a"])
    logs = [cw.log(f"metrics_data_{id}") for id in (7, 8)]
    before = [await log.bounds() for log in logs]
    with pytest.raises(Corrupt, match="metrics_data_7/0 at offset 0: version 0 of a record"):
        await cw.wal("metrics").region(7)
    with pytest.raises(Corrupt, match=r"metrics_meta_8/0 at offset \d+: a key of 0 bytes"):
        await wal(cw).region(8)
    assert [await log.bounds() for log in logs] == before


async def test_reading_appends_nothing(cw: Client, url: str) -> None:
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a"])
    async with cordwood.connect(url, read_only=True) as reading, wal(reading).region(7) as region:
        assert await by_table(region) == {42: {1: b"a"}}
        with pytest.raises(Unavailable, match="read_only=True"):
            await region.write(42, [b"b"])
    assert await cw.log("metrics_data_7").bounds() == (0, 1)


async def test_many_writes_at_once_are_all_there_in_the_order_of_the_calls(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        calls = [region.write(table, [b"%d" % n, b"x"]) for n in range(40) for table in range(5)]
        numbers = await asyncio.gather(*calls)
        assert numbers == [range(2 * n + 1, 2 * n + 3) for n in range(40) for _ in range(5)]
        found = await by_table(region)
    assert found == {table: {k + 1: b"x" if k % 2 else b"%d" % (k // 2) for k in range(80)} for table in range(5)}


async def test_what_is_too_large_has_no_number(cw: Client) -> None:
    async with wal(cw).region(7) as region:
        with pytest.raises(TooLarge, match=r"table 42: 2 payloads are \d+ bytes as records, the limit of"):
            await region.write(42, [b"x" * (4 << 20), b"y"])
        assert await region.write(42, [b"a"]) == range(1, 2)


@pytest.mark.parametrize("fault", ["refused", "lost", "lost, but written", "late", "twice"])
async def test_after_a_failed_append_acks_stay_and_no_number_is_used_twice(cw: Client, fault: str) -> None:
    engine = FaultyEngine(cw, fault, 0, [fault])
    region = await Wal(
        engine, "metrics", codec="rfc", timeout=30, read_only=False, on_open=lambda region: None, clean_every=None
    ).region(7)
    await region.write(42, [b"first"])
    (log,) = engine.logs
    log.odds = 1
    acked, known = {1: b"first"}, True
    try:
        acked[(await region.write(42, [b"second"]))[0]] = b"second"
    except (Timeout, Unavailable) as error:
        known = error.outcome == "not_written"
        assert known == (fault == "refused")
    assert (2 in acked) == (fault in ("lost, but written", "twice"))
    engine.heal()
    await engine.settle()
    assert await region.write(42, [b"third"]) == range(3, 4), "its own late record is no other writer's"
    acked[3] = b"third"
    async with wal(cw).region(7) as again:
        found = (await by_table(again))[42]
    assert {number: payload for number, payload in found.items() if number in acked} == acked
    assert set(found) - set(acked) <= ({2} if not known else set())


@pytest.mark.parametrize("engine", ["embedded"])  # the time is short
async def test_writes_that_wait_behind_failing_ones_fail_when_their_time_is_over(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = FaultyEngine(cw, 0, 0)
    region = await Wal(
        faulty, "metrics", codec="rfc", timeout=1, read_only=False, on_open=lambda region: None, clean_every=None
    ).region(7)

    async def unanswered(batch: Batch, *, timeout: float) -> Sequence[int]:
        await asyncio.sleep(timeout)
        raise Timeout("no answer", outcome="unknown")

    with monkeypatch.context() as silent:
        silent.setattr(faulty.logs[0], "append", unanswered)
        tables = [*[42] * 30, *range(100, 200)]  # behind each other, and more than are under way at once
        async with asyncio.timeout(8):
            failed = await asyncio.gather(*(region.write(table, [b"a"]) for table in tables), return_exceptions=True)
    assert {type(error) for error in failed} == {Timeout}
    assert getattr(failed[29], "outcome", None) == getattr(failed[-1], "outcome", None) == "not_written"
    assert await region.write(42, [b"b"]) == range(31, 32)
    await region.close()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_goes_wrong_with_appends_what_was_acked_is_there(cw: Client, seed: int) -> None:
    engine = FaultyEngine(cw, seed, 0.2, FAULTS)
    region = await Wal(
        engine, "metrics", codec="rfc", timeout=30, read_only=False, on_open=lambda region: None, clean_every=None
    ).region(7)
    acked: dict[tuple[int, int], bytes] = {}
    refused: set[bytes] = set()

    async def fill(table: int) -> None:
        for step in range(20):
            payloads = [b"%d-%d-%d" % (table, step, place) for place in range(1 + step % 3)]
            try:
                numbers = await region.write(table, payloads)
            except (Timeout, Unavailable) as error:
                if error.outcome == "not_written":
                    refused.update(payloads)
                continue
            for number, payload in zip(numbers, payloads, strict=True):
                assert acked.setdefault((table, number), payload) == payload, "a number was given twice"

    await asyncio.gather(*map(fill, range(5)))
    engine.heal()
    await engine.settle()
    assert engine.logs[0].made, "nothing went wrong"
    async with wal(cw).region(7) as again:
        found = {(table, numbers.start): payloads[0] for table, numbers, payloads in await taken(again.replay())}
    assert {place: found.get(place) for place in acked} == acked
    assert not refused & set(found.values())


async def test_a_mark_that_failed_is_not_applied(cw: Client) -> None:
    engine = FaultyEngine(cw, 0, 0, ["refused"], part="_meta_")
    region = await Wal(
        engine, "metrics", codec="rfc", timeout=30, read_only=False, on_open=lambda region: None, clean_every=None
    ).region(7)
    await region.write(42, [b"a"])
    engine.logs[-1].odds = 1
    with pytest.raises(Unavailable):
        await region.mark_deleted(42, through=1)
    await region.write(42, [b"b"])
    assert [is_start for *_, is_start, _ in await records(cw.log("metrics_data_7"))] == [1, 0]
    assert len((await by_table(region))[42]) == 2


async def test_the_meta_log_keeps_no_more_than_the_marks_that_are_needed(
    cw: Client, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rfc_meta_writer, "NEEDLESS_MAX", 5)
    monkeypatch.setattr(rfc_meta_writer, "MARKS_MAX", 3)
    meta = cw.log("metrics_meta_7")
    async with wal(cw).region(7) as region:
        start = 0
        for number in range(1, 8):
            await region.write_many({table: [b"a"] for table in range(10)})
            await asyncio.gather(*(region.mark_deleted(table, through=number) for table in range(9)))
            start, end = await meta.bounds()
            # At most what may stay, the marks of one append that pass it, and all of them once more before the trim.
            assert end - start <= (2 * 9 + 5) + 3 + 9
        assert start > 0
        assert region.stats().failure is region.stats().trim_refused is None
        assert await region.write(0, [b"live"]) == range(8, 9)
    for read_only in (True, False):
        async with cordwood.connect(url, read_only=read_only) as again, wal(again).region(7) as region:
            tables = region.tables()
            assert {table: tables[table].deleted_through for table in range(10)} == {**dict.fromkeys(range(9), 7), 9: 0}
            assert {table: list(entries) for table, entries in (await by_table(region)).items()} == {
                0: [8],
                9: [*range(1, 8)],
            }
    assert "was cut" not in caplog.text


async def test_marks_that_are_made_at_once_share_an_append(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with wal(cw).region(7) as region:
        await region.write_many({table: [b"a"] for table in range(50)})
        meta_writer = rfc_meta_writer_of(region)
        appends, append = [], meta_writer._log.append

        async def counted(batch: Batch, **named: Any) -> Sequence[int]:
            appends.append(len(batch))
            return await append(batch, **named)

        monkeypatch.setattr(meta_writer._log, "append", counted)
        await asyncio.gather(*(region.mark_deleted(table, through=1) for table in range(50)))
        assert sum(appends) == 50
        assert len(appends) <= 2


async def test_a_meta_log_that_was_cut_is_told_and_no_refusal(cw: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with wal(cw).region(7) as region:
        for table in (42, 43):
            await region.write(table, [b"a", b"b"])
            await region.mark_deleted(table, through=1)
    await cw.log("metrics_meta_7").trim(1)
    async with wal(cw).region(7) as region:
        assert await by_table(region) == {42: {1: b"a", 2: b"b"}, 43: {2: b"b"}}
        assert await region.write(42, [b"c"]) == range(3, 4)
    assert "metrics_meta_7/0 was cut before offset 1" in caplog.text


async def test_another_writer_s_mark_fences_and_is_never_trimmed(cw: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    old = await wal(cw).region(7)
    await old.write_many({42: [b"a"] * 9, 43: [b"b"] * 9})
    new = await wal(cw).region(7)
    await new.mark_deleted(43, through=5)
    monkeypatch.setattr(rfc_meta_writer, "NEEDLESS_MAX", -100)  # after each mark it would trim
    await old.mark_deleted(42, through=1)
    with pytest.raises(Fenced, match="the record at offset 0 of metrics_meta_7/0 is not of this writer"):
        await old.mark_deleted(42, through=2)
    with pytest.raises(Fenced):
        await old.write(42, [b"zombie"])
    assert old.tables()[43].deleted_through == 5, "it is as good as an own one"
    assert (await cw.log("metrics_meta_7").bounds())[0] == 0
    async with wal(cw).region(7) as again:
        assert {table: meta.deleted_through for table, meta in again.tables().items()} == {42: 1, 43: 5}


async def test_an_own_mark_that_arrives_late_is_no_other_writer_s(cw: Client) -> None:
    engine = FaultyEngine(cw, 0, 0, ["late"], part="_meta_")
    region = await Wal(
        engine, "metrics", codec="rfc", timeout=30, read_only=False, on_open=lambda region: None, clean_every=None
    ).region(7)
    await region.write(42, [b"a"] * 9)
    (log,) = engine.logs[-1:]
    log.odds = 1
    with pytest.raises(Timeout) as late:
        await region.mark_deleted(42, through=3)
    assert late.value.outcome == "unknown"
    engine.heal()
    await engine.settle()
    await region.mark_deleted(42, through=5)
    await region.write(42, [b"b"])
    await region.mark_deleted(42, through=6)


async def test_marks_that_are_repeated_without_an_answer_are_our_own(
    cw: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rfc_meta_writer, "NEEDLESS_MAX", 2)
    monkeypatch.setattr(rfc_meta_writer, "STRAYS_MAX", 0)  # there may be more marks than that
    async with wal(cw).region(7) as region:
        await region.write_many({table: [b"a"] * 9 for table in range(3)})
        meta_writer = rfc_meta_writer_of(region)
        append = meta_writer._log.append
        lost: list[Sequence[int]] = []

        async def without_an_answer(batch: Batch, **named: Any) -> Sequence[int]:
            offsets = await append(batch, **named)
            if not lost and batch[0].headers:
                lost.append(offsets)
                raise Timeout("no answer", outcome="unknown")
            return offsets

        monkeypatch.setattr(meta_writer._log, "append", without_an_answer)
        for through in range(1, 9):
            for table in range(3):
                await region.mark_deleted(table, through=through)
        assert lost
        assert await region.write(0, [b"b"]) == range(10, 11)


async def test_all_marks_that_cannot_be_written_once_more_cost_only_space(
    cw: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rfc_meta_writer, "NEEDLESS_MAX", 2)
    monkeypatch.setattr(rfc_meta_writer, "RETRY_SECONDS", 0)
    region = await wal(cw).region(7)
    await region.write(42, [b"a"] * 9)
    meta_writer = rfc_meta_writer_of(region)
    append = meta_writer._append

    async def failing(records: Sequence[tuple[bytes, bytes]], *, whole: bool = False) -> int:
        if whole:
            raise Unavailable("the disk is full", outcome="not_written", reason="full")
        return await append(records)

    with monkeypatch.context() as broken:
        broken.setattr(meta_writer, "_append", failing)
        for through in range(1, 7):
            await region.mark_deleted(42, through=through)
        await meta_writer.close()
        assert str(region.stats().failure) == "the disk is full"
        assert "metrics_meta_7/0: writing all marks once more failed: the disk is full" in caplog.text
    assert await cw.log("metrics_meta_7").bounds() == (0, 6)
    await region.mark_deleted(42, through=7)
    await region.close()
    assert region._failure() is None
    start, end = await cw.log("metrics_meta_7").bounds()
    assert (start, end) == (7, 8)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"\0" * 13, b"\0a", "a key of 13 bytes: a key of this format has 14"),
        (pack(">BIQB", 3, 42, 1, 0), b"\0a", "version 3 of a key; this Cordwood knows version 0"),
        (pack(">BIQB", 0, 42, 1, 2), b"\0a", "is_start is 2: it is 0 or 1"),
        (pack(">BIQB", 0, 42, 1, 0), b"\1a", "version 1 of a value"),
        (None, None, "a key of 0 bytes"),
    ],
)
@pytest.mark.parametrize("engine", ["embedded"])
async def test_what_is_no_record_is_damage_with_its_place(
    cw: Client, key: bytes | None, value: bytes | None, said: str
) -> None:
    async with wal(cw).region(7) as region:
        await region.write(42, [b"a"])
    await cw.log("metrics_data_7").append(Batch.of([value], keys=[key]))
    with pytest.raises(Corrupt, match=f"metrics_data_7/0 at offset 1: {said}"):
        async with wal(cw).region(7) as region:
            await by_table(region)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"\0", b"\0" * 9, "a key of 1 bytes: a key of this format has 5"),
        (pack(">BI", 1, 42), b"\0" * 9, "version 1 of a key"),
        (pack(">BI", 0, 42), b"\1" * 9, "version 1 of a value"),
        (pack(">BI", 0, 42), b"\0" * 8, "a mark of 8 bytes: it has 9"),
    ],
)
@pytest.mark.parametrize("engine", ["embedded"])
async def test_what_is_no_mark_is_damage_with_its_place(cw: Client, key: bytes, value: bytes, said: str) -> None:
    async with wal(cw).region(7):
        pass
    await cw.log("metrics_meta_7").append(Batch.of([value], keys=[key]))
    with pytest.raises(Corrupt, match=f"metrics_meta_7/0 at offset 0: {said}"):
        await wal(cw).region(7)


def test_the_blocking_twin_has_it_too(url: str) -> None:
    with cordwood.sync.connect(url) as cw:
        with cw.wal("metrics", codec="rfc").region(7) as region:
            assert region.write(42, [b"a", b"b"]) == range(1, 3)
            region.mark_deleted(42, through=1)
            assert [list(entries.payloads) for entries in region.replay()] == [[b"b"]]
        with cw.wal("metrics", codec="rfc").region(7) as region:
            assert region.tables()[42].deleted_through == 1

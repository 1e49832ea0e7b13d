"""The memory of a read of records that the head does not keep, nor the store has."""

import asyncio
from pathlib import Path

import pytest

import cordwood
from cordwood import Event, Journal
from cordwood.journal import scan
from cordwood.simulation.memory import MemoryEngine, MemoryStore
from tests.support.journal.handles import handle
from tests.support.traced_memory import traced

MIB = 1 << 20


async def large_journal(tmp_path: Path, count: int) -> tuple[cordwood.Client, Journal]:
    """A journal with so many events of 1 MiB, none of them kept in memory or replicated."""
    cw = await cordwood.connect(f"file:{tmp_path / 'log'}")
    async with cordwood.connect(f"file:{tmp_path / 'log'}") as writer:
        journal = writer.journal("t", partitions=1, replicate=False, keep=None)
        for number in range(count):
            await journal.append("k", [Event.binary(number.to_bytes(1) * MIB)])
    return cw, cw.journal("t", partitions=1, replicate=False, keep=None, head_bytes_max=MIB)


@pytest.mark.parametrize("call", ["pointer", "read", "delete"])
async def test_a_large_head_is_looked_through_within_a_few_mib(tmp_path: Path, call: str) -> None:
    cw, journal = await large_journal(tmp_path, 64)
    assert await journal.pointer("other") is None
    with traced() as memory:
        if call == "pointer":
            assert await journal.pointer("k") == 64
        elif call == "delete":
            await journal.delete("k", through=1)
        else:
            async with journal.read("k") as reader:
                assert [event.raw[0] async for event in reader] == list(range(64))
        peak = memory.peak
    await cw.close()
    assert peak < 6 * scan.BYTES_MAX


async def test_look_ups_at_once_each_get_their_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BYTES_MAX", 300)
    engine = MemoryEngine(MemoryStore())
    journal = handle(engine, tmp_path / "store.db", head_bytes_max=1)
    for number in range(60):
        await journal.append(f"key-{number % 3}", [Event.text(f"{number}")])

    async def read(key: int) -> None:
        found = [event.payload async for event in journal.read(f"key-{key}")]
        assert found == [f"{number}" for number in range(key, 60, 3)]

    await asyncio.gather(*(read(key) for key in (0, 1, 2, 2, 1, 0)))
    assert await journal.pointer("key-1") == 20
    await journal.close()

"""A small store of journals, closed or as a killed process leaves it, to damage at will; and the truth to hold it
against.

The log of the journals is in memory. It still has the records, or it was trimmed, so that only the store has them.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from cordwood import Batch, Event, Journal
from cordwood.journal.action import ACTION_HEADER, Append
from cordwood.journal.header import encode_header
from cordwood.log.partitioning import partition_of
from cordwood.simulation.memory import MemoryEngine, MemoryStore, Partition
from tests.support.journal.handles import handle

TOPIC = "orders"
KEYS = ("plain", "other", "kept", "emptied", "snapped", "skipped", "expiring")
"""The keys that a journal may be read under; two more are purged and closed."""
Contents = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DamagedStore:
    """The files of the store as they were left, its log, and what a program reads from both."""

    files: dict[str, bytes]
    log: MemoryStore
    truth: Contents

    def put(self, folder: Path) -> Path:
        """Make the store anew, as it was left; the path of its file."""
        for file in folder.iterdir():
            file.unlink()
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return folder / "store.db"

    def own_log(self) -> MemoryStore:
        """The log as it was left, to append to."""
        topics = {
            name: (info, [Partition(list(part.records), part.start) for part in parts])
            for name, (info, parts) in self.log.topics.items()
        }
        return MemoryStore(topics=topics)


def journal_on(path: Path, log: MemoryStore) -> Journal:
    return handle(MemoryEngine(log), path, TOPIC, partitions=2)


async def small_store(folder: Path, *, closed: bool, trimmed: bool) -> DamagedStore:
    """Journals with several payloads, deleted, purged, expiring, closed, skipped, and one with snapshots."""
    path, log = folder / "store.db", MemoryStore()
    engine = MemoryEngine(log)
    async with handle(engine, path, TOPIC, partitions=2, now_ms=lambda: 1_773_144_000_000) as journal:
        for turn in range(12):
            for key in ("plain", "other", "purged", "kept", "emptied", "snapped"):
                payload = f"{key} {turn} " * 20
                await journal.append(key, [Event.json({"text": payload}, tags={"paid"}), Event.text(payload)])
            await journal.append("other", [Event.binary(bytes(range(256)) * (turn + 1))], headers={"by": "test"})
            await journal.append("expiring", texts("soon"), expire_after=timedelta(days=30))
            if turn % 3 == 0:
                await journal.catch_up()
        for turn in range(30):
            await journal.append(f"one-{turn}", texts("event"))
        await journal.catch_up()
        await journal.save_snapshot("snapped", 10, b"state at 10")
        await journal.save_snapshot("snapped", 20, b"state at 20")
        await journal.delete("snapped", through=20)
        await journal.delete("kept", through=7)
        await journal.delete("emptied", through=24)
        await journal.purge("purged")
        skipped = await journal.append("skipped", texts("first"))
        offset = await poison(engine, "skipped", after=1)
        await poison(engine, "closed", after=0)
        await journal.catch_up()
        await journal.skip(partition=skipped.partition, offset=offset)
        await journal.append("skipped", texts("third"))
        await journal.catch_up()
        await journal.append("plain", texts("last"))
        await journal.catch_up()
        files = contents(folder)
        if trimmed:
            for partition in range(2):
                _, end = await engine.log(TOPIC, partition, timeout=30).bounds()
                await engine.log(TOPIC, partition, timeout=30).trim(end)
    if closed:
        files = contents(folder)
    await engine.close(timeout=30)
    damaged = DamagedStore(files, log, {})
    async with journal_on(damaged.put(folder), log) as journal:
        damaged.truth.update(await read_all(journal))
    assert len(damaged.truth["ids"]) == 38
    return damaged


def texts(*payloads: str) -> list[Event]:
    return [Event.text(payload) for payload in payloads]


async def poison(engine: MemoryEngine, key: str, after: int) -> int:
    """Append a record whose value cannot be decoded, and which takes a number; its offset."""
    header = encode_header(Append(after + 1, after + 1, "json", id=f"poison of {key}", expected=after))
    batch = Batch.of([b"no json"], keys=[key.encode()], headers=[[(ACTION_HEADER, header)]])
    return (await engine.log(TOPIC, partition_of(key.encode(), 2), timeout=30).append(batch))[0]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


async def read_all(journal: Journal) -> Contents:
    """Everything that a program reads of the journals."""
    found: Contents = {"ids": sorted([id async for id in journal.ids()])}
    for key in found["ids"]:
        if key == "closed":
            continue
        async with journal.read(key) as reader:
            found[key] = [(e.seq_nr, e.kind, e.raw, e.tags, e.headers, e.timestamp) async for e in reader]
        found[f"{key} from 9"] = [event.seq_nr async for event in journal.read(key, 9, 15)]
        found[f"position of {key}"] = await journal.position(key)
    found["purged"] = await journal.pointer("purged")
    found["snapshot"] = await journal.load_snapshot("snapped")
    async with journal.recover("snapped") as recovered:
        found["recovered"] = recovered.snapshot, [event.seq_nr async for event in recovered]
    letters = await journal.dead_letters()
    found["dead letters"] = [(letter.place, letter.id, letter.skipped is not None, letter.value) for letter in letters]
    return found


async def check_reading(damaged: DamagedStore, path: Path) -> None:
    """Everything that a program reads is true."""
    async with journal_on(path, damaged.own_log()) as journal:
        assert_same(await read_all(journal), damaged.truth)


async def check_writing(damaged: DamagedStore, path: Path) -> None:
    """So it is, and it stays so when appends were replicated, also for the next program."""
    log, truth = damaged.own_log(), dict(damaged.truth)
    async with journal_on(path, log) as journal:
        assert_same(await read_all(journal), truth)
        for key in (*KEYS, *(f"new-{number}" for number in range(40))):
            await journal.append(key, texts("next"))
        await journal.catch_up()
        grown = await read_all(journal)
        for key in KEYS:
            assert grown[key][:-1] == truth[key], f"{key} has other events after it was written"
    async with journal_on(path, log) as journal:
        assert_same(await read_all(journal), grown)


def assert_same(found: Contents, truth: Contents) -> None:
    wrong = [key for key in {**found, **truth} if key not in found or key not in truth or found[key] != truth[key]]
    assert not wrong, f"these are wrong: {wrong[:3]}"

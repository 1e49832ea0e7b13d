"""A compacted topic: offsets have holes, the rest is read as it is, and nothing is reported as lost."""

import asyncio
import time

import pytest

import cordwood
from cordwood import Batch, Log
from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client

pytestmark = pytest.mark.slow

# The newest segment is never compacted, and a segment is closed by the first append after its time.
SOON = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
    "max.compaction.lag.ms": "100",
}
KEYS = [b"key %d" % number for number in range(10)]


async def test_what_compaction_leaves_is_read_over_the_holes(broker: Broker, topic: str) -> None:
    bare_client.create(broker.bootstrap, topic, settings=SOON)
    async with cordwood.connect(broker.url) as cw:
        log = cw.log(topic)
        written: dict[int, tuple[bytes, bytes]] = {}
        for round_number in range(4):
            values = [b"%d of %b" % (round_number, key) for key in KEYS]
            offsets = await log.append(Batch.of(values, keys=KEYS))
            written |= zip(offsets, zip(KEYS, values, strict=True), strict=True)
            await asyncio.sleep(0.1)  # no event tells that a segment is old enough
        end = max(written) + 1
        kept = await until_compacted(log, len(written))

        assert {offset: written[offset] for offset in kept} == kept
        # The last record of each key stays, whatever else does.
        assert set(range(end - len(KEYS), end)) <= set(kept)
        assert (await log.bounds())[1] == end
        # From within a hole the next record that is left comes first.
        hole = next(offset for offset in range(end) if offset not in kept)
        assert list(await read(log, start=hole)) == [offset for offset in kept if offset > hole]
        # And a follower continues over them.
        async with log.read(start=0, follow=True) as follower:
            seen = list((await anext(follower)).offsets)
            (new,) = await log.append(Batch.of([b"new"], keys=[KEYS[0]]))
            while seen[-1] < new:
                seen += (await asyncio.wait_for(anext(follower), 30)).offsets
        assert seen == [*kept, new]


async def read(log: Log, start: int = 0) -> dict[int, tuple[bytes | None, bytes | None]]:
    """The key and the value of each record, by offset."""
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    async with log.read(start=start) as reader:
        async for batch in reader:
            assert list(batch.offsets) == sorted(set(batch.offsets))
            found |= {record.offset: (record.key, record.value) for record in batch}
    return found


async def until_compacted(log: Log, before: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    """The rest, once two looks find the same, which is less than there was."""
    deadline = time.monotonic() + 60
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    while True:
        previous, found = found, await read(log)
        if len(found) < before and found == previous:
            return found
        assert time.monotonic() < deadline, f"all {len(found)} records are still there"
        await asyncio.sleep(0.5)

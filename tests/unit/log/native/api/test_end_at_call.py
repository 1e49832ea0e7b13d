from pathlib import Path

import cordwood
from cordwood import Batch


async def test_a_new_log_object_reads_the_appends_of_another_one(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"a", b"b"]))
        assert [record.value async for batch in cw.log("events").read() for record in batch] == [b"a", b"b"]


async def test_a_read_ends_where_the_log_ended_at_the_call(tmp_path: Path) -> None:
    async with cordwood.connect(tmp_path) as cw:
        await cw.create_topic("events")
        await cw.log("events").append(Batch.of([b"a"]))
        reader = cw.log("events").read()
        await cw.log("events").append(Batch.of([b"b"]))
        assert [record.value async for batch in reader for record in batch] == [b"a"]

"""Topics: their names, creating and deleting them, and their `TopicInfo`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, NotFound
from cordwood.log import Log, TopicInfo
from cordwood.records import Batch
from cordwood.testing.under_test import (
    UnderTest,
    numbered,
    promised,
    raises_as_write,
    records_of,
    values_of,
)

BAD_NAMES = ["", ".", "..", "a/b", "ä", "a b", "a\n", "x" * 250]
CALL_SECONDS = 60.0
"""The limit of one of many concurrent calls, for a busy machine too."""


class Topics(UnderTest):
    """Everything about topics."""

    async def test_a_new_topic_tells_what_it_is(self, cw: Client, topic: str) -> None:
        made = await cw.create_topic(topic, partitions=3)
        assert isinstance(made, TopicInfo)
        assert (made.name, made.partitions) == (topic, 3)
        assert made.replication >= 1
        assert (made.retention, made.retention_bytes) == (None, None)
        assert made.durability
        assert made.batch_bytes_max == self.batch_bytes_max
        assert await cw.topic(topic) == made

    async def test_a_topic_has_one_partition_unless_told(self, cw: Client, topic: str) -> None:
        assert (await cw.create_topic(topic)).partitions == 1

    async def test_retention_is_told_as_it_was_given(self, cw: Client, topic: str) -> None:
        week = timedelta(days=7)
        await cw.create_topic(topic, retention=week, retention_bytes=1 << 30)
        info = await cw.topic(topic)
        assert (info.retention, info.retention_bytes) == (week, 1 << 30)

    async def test_every_partition_is_a_log_of_its_own(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=3)
        for partition in range(3):
            log = cw.log(topic, partition)
            assert (log.topic, log.partition, log.name) == (topic, partition, f"{topic}/{partition}")
            await log.append(Batch.of(numbered(partition + 1)))
        for partition in range(3):
            assert await values_of(cw.log(topic, partition)) == numbered(partition + 1)

    async def test_topics_are_listed_by_prefix_and_sorted(self, cw: Client, topic: str) -> None:
        names = [f"{topic}.{name}" for name in ("b", "a", "b-2", "B")]
        for name in names:
            await cw.create_topic(name)
        assert await cw.topics(prefix=f"{topic}.") == sorted(names)
        assert await cw.topics(f"{topic}.b") == [f"{topic}.b", f"{topic}.b-2"]
        assert await cw.topics(f"{topic}.c") == []
        assert set(names) <= set(await cw.topics())

    async def test_what_is_no_text_is_no_prefix(self, cw: Client) -> None:
        wrong: list[Any] = [None, 7, ("a", "b")]
        for prefix in wrong:
            with pytest.raises(TypeError, match="prefix is a str, not"):
                await cw.topics(prefix)

    async def test_a_second_topic_of_that_name_is_a_conflict(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=2)
        with pytest.raises(Conflict):
            await cw.create_topic(topic)

    async def test_with_exist_ok_the_topic_stays_as_it_is(self, cw: Client, topic: str) -> None:
        made = await cw.create_topic(topic, partitions=2, exist_ok=True)
        await cw.log(topic, 1).append(Batch.of([b"kept"]))
        assert await cw.create_topic(topic, exist_ok=True) == made
        assert await cw.create_topic(topic, partitions=2, exist_ok=True) == made
        assert await values_of(cw.log(topic, 1)) == [b"kept"]

    async def test_with_exist_ok_only_a_named_argument_that_differs_is_a_conflict(self, cw: Client, topic: str) -> None:
        week = timedelta(days=7)
        made = await cw.create_topic(topic, partitions=2, retention=week, retention_bytes=5000)
        same: list[dict[str, Any]] = [
            {"partitions": 2},
            {"replication": made.replication},
            {"retention": week, "retention_bytes": 5000},
            {"retention": week + timedelta(microseconds=1)},
        ]
        for options in same:
            assert await cw.create_topic(topic, **options, exist_ok=True) == made
        other: list[tuple[dict[str, Any], str]] = [
            ({"partitions": 3}, "partitions is 2, not 3"),
            ({"retention": timedelta(days=6)}, "retention is 7 days, 0:00:00, not 6 days, 0:00:00"),
            ({"retention_bytes": 4999}, "retention_bytes is 5000, not 4999"),
            ({"partitions": 1, "retention_bytes": 1}, "partitions is 2, not 1, its retention_bytes is 5000, not 1"),
        ]
        for options, difference in other:
            with raises_as_write(Conflict, "not_written") as raised:
                await cw.create_topic(topic, **options, exist_ok=True)
            assert difference in str(raised.value)
        assert await cw.topic(topic) == made

    async def test_a_limit_that_is_altered_is_told_and_others_stay(self, cw: Client, topic: str) -> None:
        made = await cw.create_topic(topic, partitions=2, retention=timedelta(days=7))
        await cw.log(topic, 1).append(Batch.of([b"kept"]))
        week, day = timedelta(days=7), timedelta(days=1)
        changes: list[tuple[dict[str, Any], tuple[timedelta | None, int | None]]] = [
            ({"retention_bytes": 1 << 40}, (week, 1 << 40)),
            ({"retention": day}, (day, 1 << 40)),
            ({"retention": None}, (None, 1 << 40)),
            ({"retention": week, "retention_bytes": None}, (week, None)),
        ]
        for change, limits in changes:
            altered = await cw.alter_topic(topic, **change)
            assert (altered.retention, altered.retention_bytes) == limits
            assert await cw.topic(topic) == altered
        assert await cw.topic(topic) == made
        assert await values_of(cw.log(topic, 1)) == [b"kept"]

    async def test_an_alteration_that_says_nothing_possible_changes_nothing(self, cw: Client, topic: str) -> None:
        made = await cw.create_topic(topic, retention_bytes=5000)
        wrong: list[dict[str, Any]] = [{}, {"retention": timedelta(0)}, {"retention_bytes": 0}, {"retention_bytes": -1}]
        for change in wrong:
            with raises_as_write(InvalidInput, "not_written"):
                await cw.alter_topic(topic, **change)
        kinds: list[dict[str, Any]] = [{"retention": 7}, {"retention_bytes": 1.5}]
        for change in kinds:
            with pytest.raises(TypeError):
                await cw.alter_topic(topic, **change)
        assert await cw.topic(topic) == made
        with raises_as_write(NotFound, "not_written"):
            await cw.alter_topic(f"{topic}.not", retention=None)

    async def test_of_many_that_create_a_topic_one_succeeds(self, cw: Client, topic: str) -> None:
        results = await asyncio.gather(*(cw.create_topic(topic) for _ in range(10)), return_exceptions=True)
        assert sum(isinstance(result, TopicInfo) for result in results) == 1
        assert sum(isinstance(result, Conflict) for result in results) == 9

    @pytest.mark.parametrize("name", BAD_NAMES)
    async def test_a_bad_name_is_invalid_for_every_call(self, cw: Client, name: str) -> None:
        for call in (
            cw.create_topic,
            cw.topic,
            cw.delete_topic,
            lambda name: cw.alter_topic(name, retention=None),
            lambda name: cw.append(name, Batch.of([b"x"])),
        ):
            with pytest.raises(InvalidInput):
                await call(name)
        with pytest.raises(InvalidInput):
            cw.log(name)

    async def test_names_may_have_249_characters_and_these_signs(self, cw: Client, topic: str) -> None:
        for name in (topic.ljust(249, "x"), f"{topic}._-AZaz09", f"...{topic}", f"-{topic}"):
            await cw.create_topic(name)
            await cw.log(name).append(Batch.of([b"x"]))
            assert await cw.topics(name) == [name]

    async def test_what_is_no_name_is_a_type_error(self, cw: Client) -> None:
        with pytest.raises(TypeError):
            await cw.create_topic(7)  # type: ignore[arg-type]  # tested on purpose

    async def test_partitions_replicas_and_retention_of_a_topic_are_positive(self, cw: Client, topic: str) -> None:
        wrong: list[dict[str, Any]] = [
            {"partitions": 0},
            {"partitions": -1},
            {"replication": 0},
            {"replication": -1},
            {"retention": timedelta(0)},
            {"retention": timedelta(seconds=-1)},
            {"retention_bytes": 0},
            {"retention_bytes": -1},
        ]
        for options in wrong:
            with pytest.raises(InvalidInput):
                await cw.create_topic(topic, **options)
        assert await cw.topics(topic) == []

    async def test_what_is_no_whole_number_is_refused_before_it_is_stored(self, cw: Client, topic: str) -> None:
        wrong: list[dict[str, Any]] = [
            {"partitions": 1.5},
            {"partitions": "2"},
            {"replication": 1.0},
            {"replication": "1"},
            {"retention_bytes": 1.5},
            {"retention": 7},
        ]
        for options in wrong:
            with pytest.raises(TypeError):
                await cw.create_topic(topic, **options)
        assert await cw.topics(topic) == []
        with pytest.raises(TypeError):
            cw.log(topic, 0.5)  # type: ignore[arg-type]  # tested on purpose

    async def test_an_unknown_topic_is_not_found(self, cw: Client, topic: str) -> None:
        for call in (cw.topic, cw.delete_topic):
            with pytest.raises(NotFound):
                await call(topic)
        with pytest.raises(NotFound) as caught:
            await cw.delete_topic(topic)
        assert "create" not in str(caught.value), "an error never suggests to create what was to be deleted"
        with raises_as_write(NotFound, "not_written"):
            await cw.append(topic, Batch.of([b"x"]))
        await self.check_missing(cw.log(topic))
        assert await cw.topics(topic) == []

    async def test_an_unknown_partition_is_not_found(self, cw: Client, topic: str) -> None:
        await cw.create_topic(topic, partitions=2)
        for partition in (2, 2**31, 2**63):
            await self.check_missing(cw.log(topic, partition))
        with pytest.raises(InvalidInput):
            cw.log(topic, -1)

    async def test_a_log_may_be_there_before_its_topic(self, cw: Client, topic: str) -> None:
        log = cw.log(topic)
        await self.check_missing(log)
        await cw.create_topic(topic)
        await log.append(Batch.of([b"x"]))
        assert await values_of(log) == [b"x"]

    async def test_a_deleted_topic_is_gone(self, cw: Client, log: Log, topic: str) -> None:
        await log.append(Batch.of(numbered(3)))
        await cw.delete_topic(topic)
        assert await cw.topics(topic) == []
        await self.check_missing(log)
        with pytest.raises(NotFound):
            await cw.delete_topic(topic)

    async def test_a_topic_that_is_made_anew_is_empty_and_starts_at_0(self, cw: Client, log: Log, topic: str) -> None:
        for turn in range(3):
            await log.append(Batch.of(numbered(5, f"{turn}.")))
            await cw.delete_topic(topic)
            await cw.create_topic(topic)
            for same in (log, cw.log(topic)):
                assert await same.bounds() == (0, 0)
                assert await values_of(same) == []
        await log.append(Batch.of([b"new"]))
        assert [(r.offset, r.value) for r in await records_of(log.read())] == [(0, b"new")]

    async def test_a_topic_that_was_trimmed_starts_at_0_again(self, cw: Client, log: Log, topic: str) -> None:
        await log.append(Batch.of(numbered(5)))
        await log.trim(before=5)
        await cw.delete_topic(topic)
        await cw.create_topic(topic)
        assert await log.bounds() == (0, 0)
        self.check_offsets(await log.append(Batch.of([b"x"])), 0, 1)

    @promised("reopens")
    async def test_topics_are_there_for_the_next_connection(self, url: str, topic: str) -> None:
        async with self.connect(url) as cw:
            for name in ("kept", "gone", "anew"):
                await cw.create_topic(f"{topic}.{name}", partitions=2, retention=timedelta(hours=1))
                await cw.log(f"{topic}.{name}").append(Batch.of([b"old"]))
            info = await cw.alter_topic(f"{topic}.kept", retention=timedelta(hours=2))
            await cw.delete_topic(f"{topic}.gone")
            await cw.delete_topic(f"{topic}.anew")
            await cw.create_topic(f"{topic}.anew")
        async with self.connect(url) as cw:
            assert await cw.topics(topic) == [f"{topic}.anew", f"{topic}.kept"]
            assert await cw.topic(f"{topic}.kept") == info
            assert await values_of(cw.log(f"{topic}.kept")) == [b"old"]
            assert await values_of(cw.log(f"{topic}.anew")) == []

    async def test_appends_that_meet_a_delete_are_written_or_told(self, cw: Client, log: Log, topic: str) -> None:
        async def append() -> None:
            for _ in range(20):
                await log.append(Batch.of([b"x"]))

        writers = [asyncio.ensure_future(append()) for _ in range(10)]
        await asyncio.sleep(0.01)
        await cw.delete_topic(topic)
        for result in await asyncio.gather(*writers, return_exceptions=True):
            if result is not None:
                assert isinstance(result, NotFound)
                assert result.outcome in ("not_written", "unknown")

    async def test_many_topics_are_each_there_and_in_a_bounded_time(self, cw: Client, topic: str) -> None:
        names = [f"{topic}.{index:05}" for index in range(self.topics_many)]
        await asyncio.gather(*(cw.create_topic(name, timeout=CALL_SECONDS) for name in names))
        appends = (cw.log(name).append(Batch.of([name.encode()]), timeout=CALL_SECONDS) for name in names)
        await asyncio.gather(*appends)
        assert await cw.topics(f"{topic}.") == names
        for name in names[:: max(1, len(names) // 20)]:
            assert await values_of(cw.log(name)) == [name.encode()]

    async def check_missing(self, log: Log) -> None:
        """Check that every call on this log raises NotFound, an append with the outcome "not_written"."""
        with raises_as_write(NotFound, "not_written"):
            await log.append(Batch.of([b"x"]))
        calls: list[Callable[[], Awaitable[object]]] = [
            log.bounds,
            lambda: log.trim(before=0),
            lambda: log.offset_at(datetime.now(UTC)),
            lambda: values_of(log),
        ]
        for call in calls:
            with pytest.raises(NotFound):
                await call()

"""Writes that fail: cancelled, timed out, refused. The log stays consistent in all cases."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from cordwood.client import Client
from cordwood.errors import Conflict, CordwoodError, InvalidInput, NotFound, Timeout, TooLarge, Unavailable
from cordwood.log import Log
from cordwood.records import Batch
from cordwood.testing.under_test import UnderTest, numbered, promised, raises_as_write, records_of, values_of

Outcome = Sequence[int] | BaseException
"""The offsets of an append, or its error."""


class Outcomes(UnderTest):
    """Every append is written, is not written, or may be; and its outcome says which."""

    async def check_outcomes(self, log: Log, outcomes: dict[bytes, Outcome]) -> None:
        """Check the log against the outcomes of the appends, of one record each and named by its value."""
        records = await records_of(log.read())
        values = [record.value for record in records]
        assert len(values) == len(set(values)), "a record is there twice"
        assert set(values) <= set(outcomes), "a record is there that nobody wrote"
        offsets = [record.offset for record in records]
        assert offsets == (list(range(len(records))) if self.dense else sorted(set(offsets)))
        found = dict(zip(values, offsets, strict=True))
        for value, outcome in outcomes.items():
            if not isinstance(outcome, BaseException):
                assert list(outcome) == [found[value]], f"{value!r} was acked at {outcome}"
            elif isinstance(outcome, CordwoodError):
                assert outcome.outcome in ("not_written", "unknown"), repr(outcome)
                assert outcome.outcome == "unknown" or value not in found, f"{value!r} was written after all"
            else:
                assert isinstance(outcome, asyncio.CancelledError), repr(outcome)

    async def test_a_cancelled_append_leaves_the_log_consistent(self, log: Log) -> None:
        outcomes: dict[bytes, Outcome] = {}
        for turn in range(20):
            values = [f"{turn}.{index}".encode() for index in range(16)]
            tasks = [asyncio.ensure_future(log.append(Batch.of([value]))) for value in values]
            # Each turn cancels at another moment: before the append begins, while it is queued, written, or acked.
            for _ in range(turn % 4):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0005 * (turn // 4))
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            outcomes |= zip(values, results, strict=True)
        assert any(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes.values())
        assert all(not isinstance(outcome, BaseException) for outcome in list(outcomes.values())[1::2])
        last = await log.append(Batch.of([b"last"]))
        await self.check_outcomes(log, {**outcomes, b"last": last})

    @promised("reopens")
    async def test_what_was_cancelled_is_also_consistent_for_the_next_connection(self, url: str, topic: str) -> None:
        values = [b"%d" % index for index in range(32)]
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            tasks = [asyncio.ensure_future(cw.log(topic).append(Batch.of([value]))) for value in values]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            outcomes = dict(zip(values, await asyncio.gather(*tasks, return_exceptions=True), strict=True))
        async with self.connect(url) as cw:
            log = cw.log(topic)
            await self.check_outcomes(log, outcomes)
            last = await log.append(Batch.of([b"last"]))
            await self.check_outcomes(log, {**outcomes, b"last": last})

    @promised("expected_offsets")
    async def test_the_offset_of_a_cancelled_append_is_taken_or_free(self, log: Log) -> None:
        for turn in range(20):
            at = (await log.bounds())[1]
            task = asyncio.ensure_future(log.append(Batch.of([b"cancelled"]), expected=at))
            await asyncio.sleep(0.0003 * (turn % 5))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            offsets = await log.append(Batch.of([b"after"]))
            assert at <= offsets[0] <= at + 1
            values = await values_of(log, at)
            assert values == [b"cancelled"] * (offsets[0] - at) + [b"after"]

    async def test_an_append_whose_time_is_over_says_what_became_of_it(self, log: Log) -> None:
        values = numbered(60)
        tasks = [
            log.append(Batch.of([value]), timeout=(1e-9, 0.0005, 0.002, 30)[index % 4])
            for index, value in enumerate(values)
        ]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            assert not isinstance(result, BaseException) or isinstance(result, Timeout), repr(result)
        assert all(not isinstance(result, BaseException) for result in results[3::4])
        last = await log.append(Batch.of([b"last"]))  # after it, every append under way has its place
        known = {value or b"": result for value, result in zip(values, results, strict=True)}
        await self.check_outcomes(log, {**known, b"last": last})

    async def test_a_call_whose_time_is_over_is_a_timeout(self, cw: Client, log: Log) -> None:
        # The call may still be fast enough: it must raise no other error.
        for _ in range(20):
            for call in (cw.topics(timeout=1e-9), log.bounds(timeout=1e-9), cw.topic(log.topic, timeout=1e-9)):
                try:
                    await call
                except Timeout:
                    pass

    async def test_what_is_no_time_is_refused(self, cw: Client, log: Log) -> None:
        def calls(timeout: float) -> list[Coroutine[Any, Any, Any]]:
            return [
                cw.topics(timeout=timeout),
                cw.topic(log.topic, timeout=timeout),
                cw.create_topic("made", timeout=timeout),
                cw.delete_topic(log.topic, timeout=timeout),
                cw.append(log.topic, Batch.of([b"x"]), timeout=timeout),
                log.append(Batch.of([b"x"]), timeout=timeout),
                log.bounds(timeout=timeout),
                log.trim(before=0, timeout=timeout),
                log.offset_at(datetime.now(UTC), timeout=timeout),
            ]

        for call in [*calls(-1), *calls(float("nan"))]:
            with pytest.raises(InvalidInput, match=r"timeout is (-1|nan) seconds"):
                await call
        for call in calls("1"):  # type: ignore[arg-type]  # tested on purpose
            with pytest.raises(TypeError, match="timeout is a number of seconds, not str"):
                await call
        assert await values_of(log) == []

    async def test_a_change_that_is_refused_says_that_nothing_was_changed(self, cw: Client, log: Log) -> None:
        with raises_as_write(Conflict, "not_written"):
            await cw.create_topic(log.topic)
        with raises_as_write(InvalidInput, "not_written"):
            await cw.create_topic("not a name")
        with raises_as_write(NotFound, "not_written"):
            await cw.delete_topic(f"{log.topic}-missing")
        for before in (-1, 1):
            with raises_as_write(InvalidInput, "not_written"):
                await log.trim(before=before)

    async def test_appends_under_way_when_the_connection_closes_are_written_or_told(
        self, url: str, cw: Client, log: Log
    ) -> None:
        values = [b"%d" % index for index in range(100)]
        async with self.connect(url) as other:
            same = other.log(log.topic)
            tasks = [asyncio.ensure_future(same.append(Batch.of([value]))) for value in values]
            await asyncio.sleep(0)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        last = await log.append(Batch.of([b"last"]))
        await self.check_outcomes(log, {**dict(zip(values, results, strict=True)), b"last": last})

    @promised("reopens")
    async def test_appends_during_the_last_close_are_written_or_raise(self, url: str, topic: str) -> None:
        values = [b"%d" % index for index in range(100)]
        async with self.connect(url) as cw:
            await cw.create_topic(topic)
            log = cw.log(topic)
            tasks = [asyncio.ensure_future(log.append(Batch.of([value]))) for value in values]
            await asyncio.sleep(0.002)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        for result in results:
            assert not isinstance(result, BaseException) or isinstance(result, Unavailable), repr(result)
        async with self.connect(url) as cw:
            await self.check_outcomes(cw.log(topic), dict(zip(values, results, strict=True)))

    async def test_an_error_of_one_append_does_not_touch_its_neighbours(self, log: Log) -> None:
        too_large = Batch.of([bytes(self.batch_bytes_max + 1)])
        batches = [too_large if index % 3 == 1 else Batch.of([b"%d" % index]) for index in range(30)]
        results = await asyncio.gather(*map(log.append, batches), return_exceptions=True)
        for index, result in enumerate(results):
            assert isinstance(result, TooLarge) == (index % 3 == 1), repr(result)
        assert sorted(await values_of(log), key=str) == sorted(
            [b"%d" % index for index in range(30) if index % 3 != 1], key=str
        )

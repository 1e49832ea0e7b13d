"""Engines that break one promise each. `test_the_suite` runs one theme on each, and wants it to be noticed there."""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from cordwood import client, sync
from cordwood.errors import CordwoodError, InvalidInput, NotFound
from cordwood.log import TopicInfo
from cordwood.log.topics import TopicChange, TopicConfig
from cordwood.records import FRAME_BYTES_MAX, Batch, StoredBatch, StoredRecord, frame_bytes
from cordwood.simulation.memory import MemoryEngine, MemoryLog, MemoryPartitionsReader, MemoryReader, Partition
from cordwood.testing.appending import Appending
from cordwood.testing.concurrency import Concurrency
from cordwood.testing.connections import Connections
from cordwood.testing.following import Following
from cordwood.testing.outcomes import Outcomes
from cordwood.testing.partitions import Partitions
from cordwood.testing.positions import Positions
from cordwood.testing.reading import Reading
from cordwood.testing.several import Several
from cordwood.testing.topics import Topics
from cordwood.testing.trimming import Trimming
from cordwood.testing.twin import Twin
from tests.support.conformance.under_memory import UnderMemory


def with_log(log: type[MemoryLog]) -> type[MemoryEngine]:
    return type("BrokenEngine", (MemoryEngine,), {"log_class": log})


def with_reader(reader: type[MemoryReader]) -> type[MemoryEngine]:
    return with_log(type("BrokenLog", (MemoryLog,), {"reader_class": reader}))


class NullIsEmpty(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        values = [value or b"" for value in batch.values]
        return await super().append(Batch.of(values, keys=batch.keys, headers=batch.headers), **options)


class LimitIsLower(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        if frame_bytes(batch) == FRAME_BYTES_MAX:
            batch = Batch.of([bytes(FRAME_BYTES_MAX)])
        return await super().append(batch, **options)


class ExpectationIsIgnored(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        return await super().append(batch, timeout=options.get("timeout"))


class OffsetIsGuessed(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        guess = self.find().end
        await asyncio.sleep(0)
        await super().append(batch, **options)
        return range(guess, guess + len(batch))


class AcksAreMixed(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        offsets = await super().append(batch, **options)
        await asyncio.sleep(0.002 if offsets[0] % 2 else 0)
        return offsets


class CancelledIsTakenBack(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        offsets = await super().append(batch, **options)
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            del self.find().records[-1]
            raise
        return offsets


class OutcomeIsMissing(MemoryLog):
    async def append(self, batch: Batch, **options: Any) -> Sequence[int]:
        try:
            return await super().append(batch, **options)
        except CordwoodError as error:
            error.outcome = None
            raise


class TrimStartsOver(MemoryLog):
    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        await super().trim(before)
        if not self.find().records:
            self.find().start = 0


class TimesAreTakenAsSorted(MemoryLog):
    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        stamps = [record.timestamp for record in self.find().records]
        return self.find().start + bisect_left(stamps, when.timestamp() * 1000)


class StopIsTheBatchs(MemoryReader):
    def batch(self, partition: Partition, at: int) -> StoredBatch | None:
        stop, self.stop = self.stop, None
        batch, self.stop = super().batch(partition, at), stop
        return batch


class HalvesAreRounded(MemoryReader):
    def __init__(self, log: MemoryLog, start: int | None, stop: int | None, *how: Any) -> None:
        super().__init__(log, start and int(start), stop and int(stop), *how)


class EndIsThatOfTheFirstStep(MemoryReader):
    async def __anext__(self) -> StoredBatch:
        if not self.follow:
            self.stop = self.log.find().end
        return await super().__anext__()


class TrimmedIsSkipped(MemoryReader):
    async def __anext__(self) -> StoredBatch:
        self.at = max(self.at or 0, self.log.find().start)
        return await super().__anext__()


class CancelledStepIsLost(MemoryReader):
    async def __anext__(self) -> StoredBatch:
        batch = await super().__anext__()
        await asyncio.sleep(0.0005)
        return batch


class CloseWakesNobody(MemoryReader):
    async def close(self) -> None:
        self.wake = lambda: None
        await super().close()


class NobodyTakesTurns(MemoryReader):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.turns = nullcontext()


class StartBeyondTheEndIsEmpty(MemoryReader):
    def check_start(self, partition: Partition) -> None:
        with suppress(InvalidInput):
            super().check_start(partition)


class TopicIsNotLookedAt(MemoryReader):
    def check_topic(self, partition: Partition) -> None:
        return None


def with_partitions_reader(reader: type[MemoryPartitionsReader]) -> type[MemoryEngine]:
    return type("BrokenEngine", (MemoryEngine,), {"partitions_reader_class": reader})


class FirstPartitionIsReadWhole(MemoryPartitionsReader):
    async def step(self) -> StoredBatch:
        self.parts = dict(sorted(self.parts.items()))
        return await super().step()


class DroppedComesOnce(MemoryPartitionsReader):
    def drop(self, partition: int) -> None:
        part = self.parts.pop(partition, None)
        if part is not None:
            self.parts[-1 - partition] = part


class PositionIsThatOfTheNextBatch(MemoryPartitionsReader):
    def position(self, partition: int) -> int:
        part = self.parts[partition]
        at, batch = part.at, part.take()
        part.at = at
        return super().position(partition) + (len(batch) if batch else 0)


class EndIsLookedForLate(MemoryPartitionsReader):
    async def step(self) -> StoredBatch:
        if self.from_end:
            for part in self.parts.values():
                part.at = part.log.find().end
            self.from_end = False
        return await super().step()


class OneStartIsNotChecked(MemoryPartitionsReader):
    def begin(self) -> None:
        super().begin()
        for part in self.parts.values():
            part.stop = part.stop if part.at is None else max(part.at, part.log.find().end)


class KnownIsWhatIsThere(MemoryLog):
    async def fetch(self, offsets: Sequence[int], **options: Any) -> list[StoredRecord]:
        start = self.find().start
        return await super().fetch([offset for offset in offsets if offset >= start], **options)


class PartitionIsNotNamed(MemoryReader):
    def batch(self, partition: Partition, at: int) -> StoredBatch | None:
        batch = super().batch(partition, at)
        if batch is not None:
            batch.partition = None
        return batch


class DeletedComesBack(MemoryEngine):
    kept: list[Partition]

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        self.kept = self.find(name)[1]
        await super().delete_topic(name, timeout=timeout)

    async def create_topic(self, name: str, config: TopicConfig, **options: Any) -> TopicInfo:
        info = await super().create_topic(name, config, **options)
        if hasattr(self, "kept"):
            self.store.topics[name] = info, self.kept
        return info


class PartsAreNotChecked(MemoryEngine):
    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        return None


class RetentionIsForgotten(MemoryEngine):
    async def create_topic(self, name: str, config: TopicConfig, **options: Any) -> TopicInfo:
        return await super().create_topic(name, replace(config, retention=None), **options)


class AlteringForgetsTheRest(MemoryEngine):
    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        named = {"retention": None, "retention_bytes": None, **change.named()}
        return await super().alter_topic(name, TopicChange(**named), timeout=timeout)


class ClosedGoesOn(MemoryEngine):
    async def close(self, *, timeout: float) -> None:
        return None


class MissingIsEmpty(MemoryLog):
    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        try:
            return await super().bounds()
        except NotFound:
            return 0, 0


class TestNullIsEmpty(UnderMemory, Appending):
    noticed_by = "test_null_and_empty_values_stay_apart"
    engine_class = with_log(NullIsEmpty)


class TestLimitIsLower(UnderMemory, Appending):
    noticed_by = "test_a_batch_of_exactly_the_limit_is_accepted"
    engine_class = with_log(LimitIsLower)


class TestExpectationIsIgnored(UnderMemory, Appending):
    noticed_by = "test_an_append_at_another_offset_is_a_conflict_with_the_actual_one"
    engine_class = with_log(ExpectationIsIgnored)


class TestOffsetIsGuessed(UnderMemory, Concurrency):
    noticed_by = "test_appends_of_many_tasks_are_each_found_once_at_their_offset"
    engine_class = with_log(OffsetIsGuessed)


class TestAcksAreMixed(UnderMemory, Concurrency):
    noticed_by = "test_appends_return_in_the_order_of_their_offsets"
    engine_class = with_log(AcksAreMixed)


class TestCancelledIsTakenBack(UnderMemory, Outcomes):
    noticed_by = "test_a_cancelled_append_leaves_the_log_consistent"
    engine_class = with_log(CancelledIsTakenBack)


class TestOutcomeIsMissing(UnderMemory, Appending):
    noticed_by = "test_an_empty_batch_is_invalid_and_writes_nothing"
    engine_class = with_log(OutcomeIsMissing)


class TestTrimStartsOver(UnderMemory, Trimming):
    noticed_by = "test_after_trimming_everything_offsets_go_on"
    engine_class = with_log(TrimStartsOver)


class TestTimesAreTakenAsSorted(UnderMemory, Trimming):
    noticed_by = "test_offset_at_finds_the_first_even_where_timestamps_go_back"
    engine_class = with_log(TimesAreTakenAsSorted)


class TestTrimmedIsSkipped(UnderMemory, Trimming):
    noticed_by = "test_a_read_below_the_first_kept_offset_is_trimmed_and_names_it"
    engine_class = with_reader(TrimmedIsSkipped)


class TestStopIsTheBatchs(UnderMemory, Reading):
    noticed_by = "test_a_range_is_half_open_and_cuts_stored_batches[0-1]"
    engine_class = with_reader(StopIsTheBatchs)


class TestHalvesAreRounded(UnderMemory, Reading):
    noticed_by = "test_what_is_no_whole_number_is_no_offset"
    engine_class = with_reader(HalvesAreRounded)


class TestEndIsThatOfTheFirstStep(UnderMemory, Reading):
    noticed_by = "test_without_a_stop_it_ends_where_the_log_ended_at_the_call"
    engine_class = with_reader(EndIsThatOfTheFirstStep)


class TestCancelledStepIsLost(UnderMemory, Following):
    noticed_by = "test_a_wait_that_is_cancelled_as_the_batch_comes_loses_none"
    engine_class = with_reader(CancelledStepIsLost)


class TestCloseWakesNobody(UnderMemory, Following):
    noticed_by = "test_a_follower_that_is_closed_while_it_waits_ends"
    engine_class = with_reader(CloseWakesNobody)


class TestNobodyTakesTurns(UnderMemory, Following):
    noticed_by = "test_closing_a_follower_ends_all_tasks_that_wait_for_it"
    engine_class = with_reader(NobodyTakesTurns)


class TestDeletedComesBack(UnderMemory, Topics):
    noticed_by = "test_a_topic_that_is_made_anew_is_empty_and_starts_at_0"
    engine_class = DeletedComesBack


class TestRetentionIsForgotten(UnderMemory, Topics):
    noticed_by = "test_retention_is_told_as_it_was_given"
    engine_class = RetentionIsForgotten


class TestStartBeyondTheEndIsEmpty(UnderMemory, Positions):
    noticed_by = "test_a_start_beyond_the_end_is_invalid_and_the_error_names_the_end"
    engine_class = with_reader(StartBeyondTheEndIsEmpty)


class TestTopicIsNotLookedAt(UnderMemory, Positions):
    noticed_by = "test_a_named_topic_that_was_created_again_is_a_conflict"
    engine_class = with_reader(TopicIsNotLookedAt)


class TestFirstPartitionIsReadWhole(UnderMemory, Several):
    noticed_by = "test_a_partition_that_lags_does_not_hold_up_the_others"
    engine_class = with_partitions_reader(FirstPartitionIsReadWhole)


class TestDroppedComesOnce(UnderMemory, Several):
    noticed_by = "test_nothing_is_returned_of_a_partition_after_it_was_dropped"
    engine_class = with_partitions_reader(DroppedComesOnce)


class TestPositionIsThatOfTheNextBatch(UnderMemory, Several):
    noticed_by = "test_the_position_is_one_past_what_the_reader_has_returned"
    engine_class = with_partitions_reader(PositionIsThatOfTheNextBatch)


class TestEndIsLookedForLate(UnderMemory, Several):
    noticed_by = "test_from_the_end_a_reader_gets_all_that_comes_after_the_call"
    engine_class = with_partitions_reader(EndIsLookedForLate)


class TestOneStartIsNotChecked(UnderMemory, Several):
    noticed_by = "test_a_start_of_one_partition_beyond_its_end_is_invalid"
    engine_class = with_partitions_reader(OneStartIsNotChecked)


class TestKnownIsWhatIsThere(UnderMemory, Several):
    noticed_by = "test_a_known_offset_that_was_trimmed_is_told_with_the_first_kept"
    engine_class = with_log(KnownIsWhatIsThere)


class TestPartitionIsNotNamed(UnderMemory, Several):
    noticed_by = "test_a_batch_of_one_log_names_its_partition_too"
    engine_class = with_reader(PartitionIsNotNamed)


class TestAlteringForgetsTheRest(UnderMemory, Topics):
    noticed_by = "test_a_limit_that_is_altered_is_told_and_others_stay"
    engine_class = AlteringForgetsTheRest


class TestMissingIsEmpty(UnderMemory, Topics):
    noticed_by = "test_an_unknown_topic_is_not_found"
    engine_class = with_log(MissingIsEmpty)


class TestClosedGoesOn(UnderMemory, Connections):
    noticed_by = "test_calls_on_a_closed_connection_are_unavailable"
    engine_class = ClosedGoesOn


class TestPartsAreNotChecked(UnderMemory, Partitions):
    noticed_by = "test_what_one_partition_cannot_take_is_written_to_none"
    engine_class = PartsAreNotChecked


class TestKeysAreHashedOtherwise(UnderMemory, Partitions):
    noticed_by = "test_a_key_goes_where_kafkas_java_client_puts_it[16]"

    @pytest.fixture(autouse=True)
    def hashed_otherwise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "split_by_key", lambda batch, partitions, keyless: {keyless: batch})


class TestTwinGivesEachBatchTwice(UnderMemory, Twin):
    noticed_by = "test_a_blocking_read_of_many_batches_is_whole_and_in_order"

    @pytest.fixture(autouse=True)
    def twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Twice(sync.Reader):
            again: StoredBatch | None = None

            def __next__(self) -> StoredBatch:
                batch, self.again = self.again, None
                if batch is None:
                    batch = self.again = super().__next__()
                return batch

        monkeypatch.setattr("cordwood.sync.log.Reader", Twice)

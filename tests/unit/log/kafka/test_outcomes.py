"""The error of an append to Kafka of which not every record was delivered."""

import asyncio

import pytest
from confluent_kafka import KafkaError

from cordwood import Batch, CordwoodError, NotFound
from cordwood.log.calls.completion import complete
from cordwood.log.kafka.delivery import Append
from cordwood.log.kafka.producer import failure
from cordwood.log.kafka.settings import Settings
from cordwood.url import KafkaUrl, parse_url


@pytest.mark.parametrize(
    ("codes", "written", "outcome"),
    [
        ([KafkaError.MSG_SIZE_TOO_LARGE], 0, "not_written"),
        ([KafkaError._INVALID_ARG, KafkaError.MSG_SIZE_TOO_LARGE], 0, "not_written"),
        ([KafkaError.MSG_SIZE_TOO_LARGE], 1, "unknown"),
        # Purged from its queue, a record may be on its second way: the first may have been written.
        ([KafkaError._PURGE_QUEUE], 0, "unknown"),
        ([KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._PURGE_QUEUE], 0, "unknown"),
        ([KafkaError._MSG_TIMED_OUT], 0, "unknown"),
        ([], 0, "unknown"),
    ],
)
async def test_only_what_was_refused_for_good_is_not_written(codes: list[int], written: int, outcome: str) -> None:
    assert told(codes, written).outcome == outcome


async def test_a_record_of_a_partition_that_the_client_forgot_is_not_found() -> None:
    error = told([KafkaError._DESTROY], 0)
    assert isinstance(error, NotFound)
    assert error.outcome == "unknown"


def told(codes: list[int], written: int) -> CordwoodError:
    """Of an append of two records, with these errors, and so many that were written."""
    loop = asyncio.get_running_loop()
    append = Append("events", 0, Batch.of([b"a", b"b"]), loop.create_future(), complete, 0.0)
    append.errors += map(KafkaError, codes)
    append.offsets += range(written)
    url = parse_url("kafka://127.0.0.1:9092")
    assert isinstance(url, KafkaUrl)
    return failure(append, Settings.of(url, 30))

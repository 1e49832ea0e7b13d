import pytest

from cordwood.log.kafka.checks import TIMESTAMP_MIN
from cordwood.log.kafka.record_size import record_bytes
from cordwood.records import Batch
from cordwood.testing import LogConformance
from cordwood.testing.kafka import Broker


class TestKafka(LogConformance):
    dense = True  # on topics that nobody compacts or writes with transactions
    atomic_batches = False  # records are checked one by one, and a crash may leave a prefix
    expected_offsets = False
    timestamp_min = TIMESTAMP_MIN

    @pytest.fixture
    def url(self, kafka: Broker) -> str:
        return kafka.url

    def batch_of_bytes(self, size: int) -> Batch:
        value = bytes(size - 80)
        value += bytes(size - record_bytes(value, None))
        assert record_bytes(value, None) == size
        return Batch.of([value])

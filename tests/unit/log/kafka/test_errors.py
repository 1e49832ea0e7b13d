"""What Kafka says in one code, and means in two."""

import pytest
from confluent_kafka import KafkaError

from cordwood import CordwoodError, InvalidInput, Unavailable
from cordwood.log.kafka.errors import translate
from cordwood.log.kafka.settings import Settings


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because"
         " only 1 broker(s) are registered.", InvalidInput),
        ("Unable to replicate the partition 1 time(s): All brokers are currently fenced.", Unavailable),
    ],
)  # fmt: skip
def test_brokers_that_are_out_of_touch_are_no_wrong_input(said: str, kind: type[CordwoodError]) -> None:
    error = KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, said)
    found = translate(error, "create_topic 'events'", Settings(("b1:9092",), {}, 30))
    assert type(found) is kind
    assert said in str(found)

"""Spark's own Kafka source is there to compare with."""

import uuid

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from cordwood.testing.kafka import Broker
from tests.support.kafka import bare_client


@pytest.mark.slow
def test_it_reads_a_topic(spark: SparkSession, kafka: Broker) -> None:
    topic = f"own-source-{uuid.uuid4().hex[:8]}"
    bare_client.create(kafka.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"value", b"key", partition=1, timestamp=1_700_000_000_123, headers=[("h", b"1")])
    assert producer.flush(30) == 0
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    (row,) = source.option("subscribe", topic).option("includeHeaders", "true").load().collect()
    assert (row.key, row.value, row.partition, row.offset) == (b"key", b"value", 1, 0)
    assert [(header.key, header.value) for header in row.headers] == [("h", b"1")]

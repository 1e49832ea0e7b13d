"""A topic on Kafka as a DataFrame: by our source, and by Spark's own."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cordwood.testing.kafka import Broker


def ours(spark: SparkSession, kafka: Broker, **options: str) -> DataFrame:
    return spark.read.format("cordwood").options(url=kafka.url, **options).load()


def theirs(spark: SparkSession, kafka: Broker, **options: str) -> DataFrame:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    return source.options(**options).load()


def rows(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))

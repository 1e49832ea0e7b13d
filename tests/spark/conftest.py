"""A folder or a broker beside Spark, and reads by nothing but Spark's own calls."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.sql import DataFrame, SparkSession

import cordwood
from cordwood.testing.kafka import Broker

Load: TypeAlias = Callable[..., DataFrame]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def cw(folder: Path) -> Iterator[cordwood.sync.Client]:
    """The writer, open beside Spark for the whole test."""
    with cordwood.sync.connect(folder) as client:
        yield client


@pytest.fixture
def load(spark: SparkSession, folder: Path) -> Load:
    """`load(topic="events", …)`: a DataFrame by nothing but Spark's own calls."""

    def load(**options: str) -> DataFrame:
        return spark.read.format("cordwood").options(url=f"file:{folder}", **options).load()

    return load


@pytest.fixture
def topic() -> str:
    """A name on Kafka that no other test has."""
    return f"spark-{secrets.token_hex(6)}"


@pytest.fixture
def client(kafka: Broker) -> Iterator[cordwood.sync.Client]:
    """A connection to Kafka."""
    with cordwood.sync.connect(kafka.url) as client:
        yield client


def plan(frame: DataFrame) -> int:
    """Let Spark plan the tasks of a DataFrame, which a later `collect()` then runs; returns how many."""
    tasks: int = frame._jdf.queryExecution().toRdd().getNumPartitions()
    return tasks

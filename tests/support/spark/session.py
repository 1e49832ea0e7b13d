"""One Spark session for all tests of a process: starting one takes longer than most of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    # Most tests need no Spark, and its import takes a while.
    from cordwood import pipeline
    from cordwood.testing.kafka import spark_jars
    from tests.support.spark.queries import SETTINGS

    session = pipeline.session("local[2]", {**SETTINGS, "spark.jars": spark_jars()})
    yield session
    session.stop()

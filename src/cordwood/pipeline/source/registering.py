"""Registering data sources of our own with a session: once, since Spark warns of a second time."""

from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

_registered: WeakKeyDictionary[SparkSession, set[type[DataSource]]] = WeakKeyDictionary()


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a source, unless this session has it."""
    known = _registered.setdefault(spark, set())
    if source not in known:
        spark.dataSource.register(source)
        known.add(source)

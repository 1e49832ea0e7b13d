"""A Spark session on this machine, and a check of its requirements."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

from cordwood.errors import Unavailable
from cordwood.java import java_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

# Only on this machine, whatever address its name has, and without a web server.
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark's own bound is 10,000 rows, which may be 20 GB.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
}


def session(master: str = "local[*]", settings: Mapping[str, str] = _NO_SETTINGS) -> "SparkSession":
    """A Spark session in this process, or the one that it has; `settings` are Spark's own.

    Before Spark starts, it raises `Unavailable`, with one line, if the extra or Java 17 or newer is missing. Spark's
    Python processes run this interpreter, unless `PYSPARK_PYTHON` names another.

    ```python
    spark = pipeline.session("local[2]", {"spark.driver.memory": "2g"})
    ```
    """
    require_pyspark()
    if problem := java_problem("Spark"):
        raise Unavailable(problem, reason="missing-java")
    from pyspark.sql import SparkSession

    # The JVM reads both from the environment when it starts.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return SparkSession.Builder().master(master).appName("cordwood").config(map={**_SETTINGS, **settings}).getOrCreate()


def require_pyspark() -> None:
    """Raise `Unavailable`, with one line, if the extra is not installed."""
    if problem := pyspark_problem():
        raise Unavailable(problem, reason="missing-extra")


def pyspark_problem() -> str | None:
    """The missing part of the extra, in one line; None if it is complete."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if not missing:
        return None
    return f"Spark needs {' and '.join(missing)}, not installed here: pip install 'cordwood[spark]'"

"""A Spark session on this machine, and what must be there for one."""

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

# On this machine alone, whatever its name resolves to, and without a web server.
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str = "local[*]", settings: Mapping[str, str] = _NO_SETTINGS) -> "SparkSession":
    """A Spark session in this process, or the one that it has; `settings` are Spark's own.

    What is missing is said in one line before Spark starts: `Unavailable` without the extra, and without Java 17
    or newer. Spark's Python processes run this interpreter, unless `PYSPARK_PYTHON` names another.

    ```python
    spark = pipeline.session("local[2]", {"spark.driver.memory": "2g"})
    ```
    """
    require_pyspark()
    if problem := java_problem("Spark"):
        raise Unavailable(problem, reason="missing-java")
    from pyspark.sql import SparkSession

    # The JVM takes both from the environment when it starts.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return SparkSession.Builder().master(master).appName("cordwood").config(map={**_SETTINGS, **settings}).getOrCreate()


def require_pyspark() -> None:
    """`Unavailable`, in one line, if the extra is not installed."""
    if problem := pyspark_problem():
        raise Unavailable(problem, reason="missing-extra")


def pyspark_problem() -> str | None:
    """What of the extra is missing, in one line; None if nothing is."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if not missing:
        return None
    return f"Spark needs {' and '.join(missing)}, not installed here: pip install 'cordwood[spark]'"

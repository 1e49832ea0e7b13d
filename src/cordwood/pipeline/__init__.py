"""Logs on Spark: `spark.read.format("cordwood")`, and what makes its use short. Extra `[spark]`, and Java 17.

Above `client`. Importing it loads neither pyspark nor pyarrow: a call does. Batch reads, and writes, of folders so far.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cordwood.errors import InvalidInput
from cordwood.url import FileUrl, parse_url

from .session import require_pyspark
from .session import session as session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "register", "session"]


def read(
    spark: "SparkSession",
    url: str | os.PathLike[str],
    topic: str | Sequence[str],
    **options: str | int | bool | Mapping[str, Mapping[str, int]],
) -> "DataFrame":
    """The records of a topic, or of several, as a DataFrame; a relative path is made absolute here.

    The columns and options are those of Spark's own Kafka source; `startingOffsets` and `endingOffsets` may be given
    as a mapping instead of its JSON.

    ```python
    spark = pipeline.session()
    pipeline.read(spark, "file:./data", "events", includeHeaders=True).groupBy("key").count().show()
    ```
    """
    require_pyspark()
    parsed = parse_url(url)
    if not isinstance(parsed, FileUrl):
        raise InvalidInput(f"{parsed} cannot be read by Spark yet; use file:FOLDER")
    texts = {name: _text(value) for name, value in options.items()}
    topics = {"topic": topic} if isinstance(topic, str) else {"subscribe": ",".join(topic)}
    return spark.read.format("cordwood").options(url=str(parsed), **topics, **texts).load()


def register(spark: "SparkSession") -> None:
    """Make `format("cordwood")` known to a session whose Python does not have this package installed.

    Where it is installed Spark finds the format by itself; where it is shipped (`--py-files`) this is needed once.

    ```python
    pipeline.register(spark)
    spark.read.format("cordwood").option("url", "file:/srv/data").option("topic", "events").load()
    ```
    """
    require_pyspark()
    from .source import CordwoodSource

    spark.dataSource.register(CordwoodSource)


def _text(value: str | int | bool | Mapping[str, Mapping[str, int]]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)

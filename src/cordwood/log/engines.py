"""The registry of engines, by the scheme of their urls: a new engine is one entry here.

An entry names its parts and imports none of them: a part may need librdkafka, pyarrow or pyspark.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

from cordwood.errors import Unavailable
from cordwood.url import FileUrl, KafkaUrl, Url

Part: TypeAlias = Literal["engine", "spark_source", "spark_sink"]


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """The parts of one engine, each as `module:name`."""

    engine: str
    """A coroutine function of (url, timeout, wait, read_only) that returns the `Engine` of a connection."""
    spark_source: str
    """Called with the url; returns the `Logs` that Spark reads."""
    spark_sink: str
    """Called with the url, the topic and the columns; returns the `Target` that Spark writes."""
    package: str | None = None
    """The package that the engine needs; the extra with the name of the scheme installs it."""
    linux_only: bool = False


ENGINES = {
    FileUrl.scheme: EngineEntry(
        engine="cordwood.log.native.api.engine:open_folder",
        spark_source="cordwood.pipeline.source.folder:FolderLogs",
        spark_sink="cordwood.pipeline.sink.folder:FolderTarget",
        linux_only=True,
    ),
    KafkaUrl.scheme: EngineEntry(
        engine="cordwood.log.kafka.engine:open_kafka",
        spark_source="cordwood.pipeline.source.kafka:KafkaLogs",
        spark_sink="cordwood.pipeline.sink.kafka:KafkaTarget",
        package="confluent-kafka",
    ),
}


def engine_of(url: Url) -> EngineEntry:
    """The entry of a url; raises `Unavailable` if no engine serves it on this system or in this version.

    >>> from pathlib import Path
    >>> engine_of(FileUrl(Path("/srv/data"))).engine
    'cordwood.log.native.api.engine:open_folder'
    """
    entry = ENGINES.get(url.scheme)
    if entry is None:
        raise Unavailable(
            f"{url}: this version of cordwood has no engine for it yet; use file:FOLDER or kafka://HOST:PORT",
            reason="unsupported",
        )
    if entry.linux_only and sys.platform != "linux":
        raise Unavailable(f"a folder of logs needs Linux, and this is {sys.platform}", reason="unsupported")
    return entry


def load(url: Url, part: Part) -> Any:
    """Import a part of the engine of a url; raises `Unavailable` if its package is missing."""
    entry = engine_of(url)
    module, _, name = getattr(entry, part).partition(":")
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        if entry.package is None:
            raise
        where = "" if part == "engine" else " in every process of Spark"
        raise Unavailable(
            f"{url} needs {entry.package}{where}: pip install 'cordwood[{url.scheme}]'", reason="missing-extra"
        ) from error

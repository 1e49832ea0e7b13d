"""What a replay reads, as Spark carries it to its processes."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from cordwood.pipeline.options import by_name, checked_url
from cordwood.url import Url

MODES = ("FAILFAST", "PERMISSIVE")


class Wanted(msgspec.Struct, frozen=True):
    """The region, and the form of its rows."""

    namespace: str
    region: int
    codec: str
    layout: str
    permissive: bool
    tables: frozenset[int] | None
    """None: all of them."""
    buckets: int
    """For rows in order: into how many parts whole writes are shuffled. 0: rows come in the order of the log."""

    def text(self) -> str:
        """As an option."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class ReplayOptions:
    """The options of the data source."""

    url: Url
    wanted: Wanted

    @staticmethod
    def of(options: Mapping[str, str]) -> "ReplayOptions":
        """From the options that Spark passes."""
        given, kafka = by_name(options, ("url", "replay"), "a replay")
        return ReplayOptions(checked_url(given, kafka), msgspec.json.decode(given["replay"], type=Wanted))

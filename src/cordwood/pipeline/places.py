"""Where a job finds its logs and its store, in a form that Spark carries to other processes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cordwood.errors import InvalidInput
from cordwood.pipeline.options import KAFKA_PREFIX, by_name, checked_url
from cordwood.store import EventStore
from cordwood.store.opening import open_store
from cordwood.store.url import parse_store_url
from cordwood.url import FileUrl, KafkaUrl, Url, parse_url

TIMEOUT_SECONDS = 30.0
STORE_PREFIX = "store."
"""Options with this prefix are settings of the store. Spark redacts those whose names say that they are secret."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class LogPlace:
    """The url of logs, with an absolute path, and its settings."""

    url: str
    config: Mapping[str, str]

    @staticmethod
    def of(url: str | os.PathLike[str], config: Mapping[str, str]) -> "LogPlace":
        """Check a url, before a job starts."""
        parsed = parse_url(url, config)
        # The url as given: the text of a parsed url has no secrets, which the workers need.
        return LogPlace(str(parsed) if isinstance(parsed, FileUrl) else os.fspath(url), dict(config))

    @property
    def parsed(self) -> Url:
        return parse_url(self.url, self.config)

    @property
    def uncommitted(self) -> Url:
        """R21: the records of a journal are read uncommitted, whatever the url says."""
        parsed = self.parsed
        if isinstance(parsed, KafkaUrl):
            return KafkaUrl(parsed.servers, {**parsed.config, "isolation.level": "read_uncommitted"})
        return parsed

    @property
    def is_folder(self) -> bool:
        return isinstance(self.parsed, FileUrl)

    def texts(self) -> dict[str, str]:
        """As options of Spark, which redacts urls, and settings whose names say that they are secret."""
        return {"url": self.url, **{KAFKA_PREFIX + name: value for name, value in self.config.items()}}


@dataclass(frozen=True)
class StorePlace:
    """The url of a store, and its settings."""

    url: str
    config: Mapping[str, str]
    machine: str | None
    """The machine that has the store, if it is a file: tasks must run there."""

    @staticmethod
    def of(url: str, config: Mapping[str, str]) -> "StorePlace":
        """Check a url, before a job starts."""
        target = str(parse_store_url(url))
        in_file = target.startswith("sqlite:")
        # A path is made absolute; any other url is passed as given, with its secrets.
        return StorePlace(target if in_file else url, dict(config), _this_machine() if in_file else None)

    async def open(self, *, read_only: bool = True) -> EventStore:
        """Open the store, in any process of a job."""
        if self.machine is not None and self.machine != _this_machine():
            raise InvalidInput(
                f"the store {self.url} is a file of the driver's machine, and this task runs on another one: use a"
                " store that all machines reach, or run Spark with local[*]"
            )
        return await open_store(self.url, config=self.config, read_only=read_only, timeout=TIMEOUT_SECONDS)

    def texts(self) -> dict[str, str]:
        """As options of Spark, which redacts urls, and settings whose names say that they are secret."""
        machine = {} if self.machine is None else {"machine": self.machine}
        return {
            "storeUrl": self.url,
            **machine,
            **{STORE_PREFIX + name: value for name, value in self.config.items()},
        }


def places_of(
    options: Mapping[str, str], allowed: tuple[str, ...]
) -> tuple[dict[str, str], LogPlace | None, StorePlace | None]:
    """The other options, and the places that `texts` has put among them."""
    store_config = {name[len(STORE_PREFIX) :]: value for name, value in options.items() if _is_of_store(name)}
    rest = {name: value for name, value in options.items() if not _is_of_store(name)}
    given, kafka = by_name(rest, ("url", "storeUrl", "machine", *allowed), "a job")
    log = store = None
    if "url" in given:
        checked_url(given, kafka)
        log = LogPlace(given.pop("url"), kafka)
    if "storeUrl" in given:
        store = StorePlace(given.pop("storeUrl"), store_config, given.pop("machine", None))
    return given, log, store


def _is_of_store(name: str) -> bool:
    return name.lower().startswith(STORE_PREFIX)


def _this_machine() -> str:
    """A name of this machine until its next boot; a file on it cannot be reached from another one."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"

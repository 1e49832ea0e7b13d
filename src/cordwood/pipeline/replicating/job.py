"""What a replicating job works on, as Spark carries it to its processes."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cordwood.errors import InvalidInput
from cordwood.store.url import parse_store_url
from cordwood.url import FileUrl, parse_url

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Places(msgspec.Struct, frozen=True):
    """The log and the store, with their secrets.

    They travel as one option whose name says "secret": Spark shows none of it, whatever a setting is called.
    """

    url: str
    config: Mapping[str, str]
    store: str
    store_config: Mapping[str, str]


class Job(msgspec.Struct, frozen=True):
    """The topics, and how they are replicated."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    max_records: int | None = None
    """The most records of a micro-batch."""
    max_dead_letters: int = 1000
    store_timeout: float = 120.0
    accept_loss: bool = False
    machine: str | None = None
    """The machine that has the store, if it is a file: tasks must run there."""
    began: Mapping[str, Mapping[int, int]] = msgspec.field(default_factory=dict)
    """The pointers at the start of the run, by topic and partition: dead letters after them count for the limit."""


@dataclass(frozen=True)
class JobOptions:
    """The options of the data sources."""

    places: Places
    job: Job

    @staticmethod
    def of(options: Mapping[str, str]) -> "JobOptions":
        """From the options that Spark passes, whose names may have lost their case."""
        return JobOptions(
            msgspec.json.decode(options["secret.places"], type=Places), msgspec.json.decode(options["job"], type=Job)
        )

    def texts(self) -> dict[str, str]:
        """As options of Spark."""
        return {
            "secret.places": msgspec.json.encode(self.places).decode(),
            "job": msgspec.json.encode(self.job).decode(),
        }


def job_options(
    url: str | os.PathLike[str],
    topics: str | Sequence[str],
    store: str,
    *,
    config: Mapping[str, str],
    store_config: Mapping[str, str],
    max_records: int | None = None,
    max_dead_letters: int,
    store_timeout: float,
    accept_loss: bool = False,
) -> JobOptions:
    """Check the arguments of a job, before it starts."""
    places = places_of(url, store, config, store_config)
    names, pattern = topics_of(topics)
    limits: dict[str, float | None] = {
        "max_records": max_records,
        "max_dead_letters": max_dead_letters,
        "store_timeout": store_timeout,
    }
    for name, limit in limits.items():
        if limit is not None and not limit >= 1:  # NaN too
            raise InvalidInput(f"{name} is {limit!r}: it is at least 1")
    job = Job(
        names,
        pattern,
        max_records,
        max_dead_letters,
        store_timeout,
        accept_loss,
        this_machine() if parse_store_url(store).scheme == "sqlite" else None,
    )
    return JobOptions(places, job)


def places_of(
    url: str | os.PathLike[str], store: str, config: Mapping[str, str], store_config: Mapping[str, str]
) -> Places:
    """The urls with absolute paths, and else as given: the text of a parsed url has no secrets."""
    log = parse_url(url, config)
    target = parse_store_url(store)
    return Places(
        str(log) if isinstance(log, FileUrl) else os.fspath(url),
        dict(config),
        str(target) if target.scheme == "sqlite" else store,
        dict(store_config),
    )


def topics_of(topics: str | Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The names of a list, or the pattern that a text is."""
    if isinstance(topics, str):
        try:
            re.compile(topics)
        except re.error as error:
            raise InvalidInput(
                f"topics is {topics!r}, a pattern: {error}; a single topic is a list: [{topics!r}]"
            ) from None
        return (), topics
    names = tuple(dict.fromkeys(topics))
    if not names:
        raise InvalidInput("topics is empty: name at least one topic, or give a pattern")
    return names, None


def this_machine() -> str:
    """A name of this machine until its next boot: a file on it cannot be reached from another one."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"

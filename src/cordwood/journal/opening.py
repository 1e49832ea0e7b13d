"""How a journal is opened: its arguments, checked, with the defaults of its engine."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from cordwood.errors import InvalidInput
from cordwood.log.arguments import whole_number
from cordwood.store.url import SqliteUrl, parse_store_url
from cordwood.url import FileUrl, Url

from .journal import JournalConfig

_AGREE_SECONDS = 3.0
LEASE_SECONDS = 10.0
SEGMENT_SIZE_MIN = 2
SEGMENT_SIZE_MAX = 2**31 - 1
"""The column of the Scala library's table has 32 bits."""
_KEEP_MAX = timedelta(days=36_500)
"""A hundred years: the times that follow from it stay within what a date can say."""


def journal_config(
    url: Url,
    *,
    store: str | None,
    store_config: Mapping[str, str],
    partitions: int,
    fence: str | None,
    replicate: bool | None,
    single_writer: bool,
    keep: timedelta | None,
    segment_size: int,
    head_bytes_max: int,
    read_only: bool,
) -> JournalConfig:
    """Check the arguments of `cw.journal`, and fill in what the engine decides."""
    in_folder = isinstance(url, FileUrl)
    if store is None:
        store = default_store(url)
        if store is None:
            raise InvalidInput(
                f"a journal on {url} needs a store, and only a folder has one: name store='sqlite:PATH' or"
                " 'cassandra://HOST/KEYSPACE'"
            )
    store = str(parse_store_url(store))  # a relative path means the folder at the call
    if whole_number("partitions", partitions) < 1:
        raise InvalidInput(f"partitions is {partitions}: a topic has at least 1")
    if whole_number("segment_size", segment_size) < SEGMENT_SIZE_MIN:
        raise InvalidInput(f"segment_size is {segment_size}: it is at least {SEGMENT_SIZE_MIN}")
    if segment_size > SEGMENT_SIZE_MAX:
        raise InvalidInput(f"segment_size is {segment_size}, over the limit of {SEGMENT_SIZE_MAX}")
    if whole_number("head_bytes_max", head_bytes_max) < 0:
        raise InvalidInput(f"head_bytes_max is {head_bytes_max}: it cannot be negative")
    if keep is not None and not isinstance(keep, timedelta):
        raise TypeError(f"keep is a timedelta or None, not {type(keep).__name__}")
    if keep is not None and keep < timedelta(0):
        raise InvalidInput(f"keep is {keep}: it cannot be negative")
    if keep is not None and keep > _KEEP_MAX:
        raise InvalidInput(f"keep is {keep}, over the limit of {_KEEP_MAX}: None keeps all records")
    return JournalConfig(
        store=store,
        store_config=store_config,
        partitions=partitions,
        fence=_fence(fence, in_folder, read_only),
        replicate=in_folder if replicate is None else replicate,
        single_writer=single_writer,
        keep=keep,
        segment_size=segment_size,
        head_bytes_max=head_bytes_max,
        agree_seconds=agree_seconds(url),
        lease_seconds=None if in_folder else LEASE_SECONDS,  # one process writes a folder
    )


def agree_seconds(url: Url) -> float:
    """How long after the first look a second one must agree: where a leader may lag, and not in a folder."""
    return 0.0 if isinstance(url, FileUrl) else _AGREE_SECONDS


def default_store(url: Url) -> str | None:
    """The url of the store that a folder has; None elsewhere.

    >>> from pathlib import Path
    >>> default_store(FileUrl(Path("/srv/100%")))
    'sqlite:/srv/100%25/store.db'
    """
    return str(SqliteUrl(url.path / "store.db")) if isinstance(url, FileUrl) else None


def _fence(fence: str | None, in_folder: bool, read_only: bool) -> Literal["mark", "watermark"]:
    if fence == "mark" and read_only:
        raise InvalidInput('fence="mark" writes a Mark, and the connection is read-only: use "watermark"')
    if fence == "watermark" or (fence is None and (in_folder or read_only)):
        return "watermark"
    if fence in (None, "mark"):
        return "mark"
    raise InvalidInput(f'fence is {fence!r}: it is "mark" or "watermark"')

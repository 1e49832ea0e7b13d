"""From parsed arguments to a connection, and a command's coroutine on it."""

import argparse
from collections.abc import Awaitable, Callable
from functools import partial
from shlex import quote
from typing import TypeAlias

from cordwood.client import Client, connect
from cordwood.errors import InvalidInput, NotFound, Unavailable
from cordwood.log import TopicInfo
from cordwood.url import FileUrl, KafkaUrl, Url, parse_url

from .event_loop import run
from .options import config_of, timeout_of, url_of, wait_of
from .refused import check_listening

Command: TypeAlias = Callable[[Client, argparse.Namespace], Awaitable[None]]
Check: TypeAlias = Callable[[Url, argparse.Namespace], None]
Run: TypeAlias = Callable[[argparse.Namespace], int]


_HOW_TO_CREATE = "`cordwood topics create NAME` makes it"
_CHECK_URL = "check --url"


def reading(command: Command, check: Check | None = None, if_missing: str = _HOW_TO_CREATE) -> Run:
    """A command that works alongside a writing process, and changes nothing; `check` refuses invalid arguments first.

    `if_missing` says what makes the folder.
    """
    return partial(_run, command, True, if_missing, check=check)


def writing(command: Command) -> Run:
    """A command that needs the folder for itself, and adds to it."""
    return partial(_run, command, False, _HOW_TO_CREATE)


def removing(command: Command, check: Check | None = None) -> Run:
    """As `writing`, for a command that works on what exists or removes it: its errors do not suggest to create that."""
    return partial(_run, command, False, _CHECK_URL, check=check)


def making(command: Command, check: Check) -> Run:
    """As `writing`, but it creates a missing folder; before that, `check` refuses invalid arguments."""
    return partial(_run, command, False, None, check=check)


async def topic_info(cw: Client, name: str) -> TopicInfo:
    """As `cw.topic`, but its error names the command, while the library's names the call."""
    try:
        return await cw.topic(name)
    except NotFound as error:
        raise NotFound(f"topic {name!r} does not exist: make it with `cordwood topics create {name}`") from error


def missing_topic(name: str) -> NotFound:
    """The error of a command that works on an existing topic or removes it."""
    return NotFound(f"topic {name!r} does not exist: `cordwood topics` lists those that do")


def partitions_of(info: TopicInfo, wanted: int | None) -> range:
    """The wanted partition, or all partitions of the topic."""
    if wanted is None:
        return range(info.partitions)
    if wanted >= info.partitions:
        raise NotFound(f"topic {info.name!r} has no partition {wanted}: its partitions are 0 to {info.partitions - 1}")
    return range(wanted, wanted + 1)


def one_partition(info: TopicInfo, wanted: int | None, why: str) -> int:
    """The one partition that the command needs; raises `InvalidInput` if there is a choice."""
    if wanted is None and info.partitions > 1:
        raise InvalidInput(f"topic {info.name!r} has {info.partitions} partitions, and {why}: say --partition N")
    return partitions_of(info, wanted)[0]


def _run(
    command: Command, read_only: bool, if_missing: str | None, args: argparse.Namespace, *, check: Check | None = None
) -> int:
    run(_connect_and_run(command, read_only, if_missing, check, args))
    return 0


def _remedy(if_missing: str, args: argparse.Namespace) -> str:
    """With the url that the user gave: the command would make the default folder without it."""
    url: str | None = getattr(args, "url", None)
    return if_missing if url is None else if_missing.replace(" NAME`", f" NAME --url {quote(url)}`")


async def _connect_and_run(
    command: Command, read_only: bool, if_missing: str | None, check: Check | None, args: argparse.Namespace
) -> None:
    config = config_of(args)
    url = parse_url(url_of(args), config)
    if check is not None:
        check(url, args)
    # `connect` would create it. After a typo in the url, an empty folder would then pass for the intended one.
    if if_missing is not None and isinstance(url, FileUrl) and not url.path.exists():
        raise Unavailable(f"{url.path} does not exist: {_remedy(if_missing, args)}", reason="unreachable")
    if isinstance(url, KafkaUrl):
        await check_listening(url, timeout_of(args))
    connecting = connect(url_of(args), config=config, timeout=timeout_of(args), wait=wait_of(args), read_only=read_only)
    async with connecting as cw:
        await command(cw, args)

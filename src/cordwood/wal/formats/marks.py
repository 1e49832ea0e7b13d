"""Marks under way, in any format: callers that wait for the task that appends."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, TypeVar

from cordwood.errors import CordwoodError, Timeout, Unavailable, reason_of
from cordwood.log import Log
from cordwood.log.calls.deadline import deadline
from cordwood.log.calls.outcome import copy_for_caller

T = TypeVar("T")


class Mark(NamedTuple):
    """Entries of a table up to a sequence number are deleted; `dropped`: the table with them."""

    table: int
    through: int
    dropped: bool
    future: asyncio.Future[None]


async def in_time(region: int, future: asyncio.Future[T], timeout: float | None, what: str) -> T:
    """Wait for it; after a timeout it continues without its caller."""
    late = f"region {region}: {what} took more than {timeout} s: it may become durable"
    async with deadline(timeout, lambda: Timeout(late, outcome="unknown")):
        return await future


def fail(future: asyncio.Future[T], error: CordwoodError) -> None:
    if not future.done():
        future.set_exception(copy_for_caller(error))


def failure(log: Log, error: BaseException) -> CordwoodError:
    """The error to raise for a failed append to a meta log."""
    if isinstance(error, CordwoodError):
        return error
    found = Unavailable(f"{log.name}: an append failed: {error!r}", outcome="unknown", reason=reason_of(error))
    found.__cause__ = error
    return found

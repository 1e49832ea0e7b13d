"""All tests check the order of locks, and that none that forbids it is held during I/O: docs/internals/threads.md."""

import os

# Before anything of cordwood is imported; inherited by the processes that tests start.
os.environ.setdefault("CORDWOOD_CHECK_LOCKS", "1")

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from cordwood import locks
from cordwood.locks import CheckedLock, check_disk_use
from cordwood.log.native.env.disk import RealDisk, RealFile

_OPERATIONS = {
    RealFile: ("write", "read", "begin_sync", "sync", "allocate", "truncate"),
    RealDisk: ("create", "open", "remove", "replace", "list", "make_folder", "remove_folder", "sync_folder"),
}


def _checked(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operation)
    def checked(*args: Any, **options: Any) -> Any:
        check_disk_use(name)
        return operation(*args, **options)

    return checked


for _kind, _names in _OPERATIONS.items():
    for _name in _names:
        setattr(_kind, _name, _checked(f"{_kind.__name__}.{_name}", getattr(_kind, _name)))


@contextmanager
def meanwhile() -> Iterator[None]:
    """Another process or thread acts here, though on this one: the locks that this thread holds are not its own."""
    mine, locks._threads.held = locks._held_here(), []
    try:
        yield
    finally:
        locks._threads.held = mine


@pytest.fixture(autouse=True)
def lock_order() -> Iterator[None]:
    """Fail a test in which any thread broke the order, also one whose error nobody saw."""
    yield
    broken, CheckedLock.broken[:] = list(CheckedLock.broken), []
    assert not broken, broken

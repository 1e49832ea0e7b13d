"""The folder engine, as a connection sees it."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from cordwood.errors import Conflict, Unavailable
from cordwood.log.calls.connection import Connection
from cordwood.log.calls.threads import call, call_until_done, in_a_thread, open_shared
from cordwood.log.interface import Engine, Follow, PartitionsReader, Starts, TopicInfo
from cordwood.log.native.coordinator import TopicRow
from cordwood.log.native.folder.process import OpenFolder, open_for_reading, open_for_writing
from cordwood.log.topics import TopicChange, TopicConfig, checked_folder_replication
from cordwood.records import FRAME_BYTES_MAX, Batch
from cordwood.url import FileUrl

from .log import FolderLog, check_size
from .partitions import read_partitions

T = TypeVar("T")

_LET_GO_SECONDS = 30.0
_BUSY_SECONDS = 0.1


async def open_folder(url: FileUrl, *, timeout: float, wait: float, read_only: bool) -> "FolderEngine":
    """Open a folder, or share the engine that this process has open on it.

    While another process writes the folder, the open retries for up to `wait` seconds.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    while True:
        try:
            return await _open(url.path, timeout, read_only)
        except Unavailable as error:
            if error.reason != "busy" or loop.time() >= until:
                raise
        await asyncio.sleep(min(_BUSY_SECONDS, until - loop.time()))


async def _open(path: Path, timeout: float, read_only: bool) -> "FolderEngine":
    open_it = open_for_reading if read_only else open_for_writing
    late = f"opening {path} took more than {timeout} s: try again, or give it more time"
    folder = await open_shared(
        "cordwood-open", timeout, late, partial(open_it, path), lambda folder: folder.close(_LET_GO_SECONDS)
    )
    return FolderEngine(folder, read_only)


class FolderEngine(Engine):
    """One connection to a folder."""

    def __init__(self, folder: OpenFolder, read_only: bool) -> None:
        self._folder = folder
        self._connection = Connection(folder, read_only)

    async def create_topic(self, name: str, config: TopicConfig, *, exist_ok: bool, timeout: float) -> TopicInfo:
        checked_folder_replication(config.replication)
        self._connection.check_writable()
        create = partial(self._folder.writing().create_topic, name, config)
        try:
            return self._info(await self._call(timeout, f"creating topic {name!r}", create))
        except Conflict:
            if not exist_ok:
                raise
            return await self.topic(name, timeout=timeout)

    async def alter_topic(self, name: str, change: TopicChange, *, timeout: float) -> TopicInfo:
        self._connection.check_writable()
        alter = partial(self._folder.writing().alter_topic, name, change)
        return self._info(await self._call(timeout, f"altering topic {name!r}", alter))

    async def topics(self, prefix: str, *, timeout: float) -> list[str]:
        rows = await self._call(timeout, "listing topics", self._folder.topics)
        return sorted(row.name for row in rows if row.name.startswith(prefix))

    async def topic(self, name: str, *, timeout: float) -> TopicInfo:
        return self._info(await self._call(timeout, f"looking up topic {name!r}", partial(self._folder.topic, name)))

    async def delete_topic(self, name: str, *, timeout: float) -> None:
        self._connection.check_writable()
        delete = partial(self._folder.writing().delete_topic, name)
        await call_until_done(self._folder.executor, timeout, f"deleting topic {name!r}", delete)

    async def check(self, topic: str, parts: Mapping[int, Batch], *, timeout: float) -> None:
        for partition, batch in parts.items():
            check_size(f"{topic}/{partition}", batch)

    def log(self, topic: str, partition: int, *, timeout: float) -> FolderLog:
        self._connection.check()
        return FolderLog(self._connection, topic, partition, timeout)

    def read(
        self,
        topic: str,
        start: Starts,
        *,
        stop: Mapping[int, int] | None,
        follow: Follow,
        topic_id: str | None,
        uncommitted: bool = False,
        timeout: float,
    ) -> PartitionsReader:
        return read_partitions(self._connection, topic, start, stop, follow, topic_id, timeout)

    async def close(self, *, timeout: float) -> None:
        self._folder.check()
        self._connection.closed = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            # A reader that still waits for the disk closes its file once the disk answers. Half of the time is for the
            # folder.
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout / 2):
                    await asyncio.gather(*(reader.close() for reader in list(self._connection.readers)))
        finally:
            # Also if the caller has given up: no later call closes this connection.
            seconds = max(0, deadline - loop.time())
            await asyncio.wrap_future(in_a_thread("cordwood-close", partial(self._folder.close, seconds)))

    async def _call(self, timeout: float, what: str, function: Callable[[], T]) -> T:
        self._connection.check()
        return await call(self._folder.executor, timeout, what, function)

    def _info(self, row: TopicRow) -> TopicInfo:
        retention = None if row.retention_ms is None else timedelta(milliseconds=row.retention_ms)
        return TopicInfo(
            row.name,
            str(row.id),
            row.partitions,
            row.replication,
            retention,
            row.retention_bytes,
            self._folder.durability,
            FRAME_BYTES_MAX,
        )

"""One log of a folder, as a connection sees it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from cordwood.errors import CordwoodError, InvalidInput, NotFound, TooLarge
from cordwood.log.arguments import (
    checked_follow,
    checked_known,
    checked_range,
    checked_timeout,
    checked_topic_id,
    milliseconds_at,
    whole_number,
)
from cordwood.log.calls.completion import complete, notifier_of, wait_for_room
from cordwood.log.calls.connection import Connection
from cordwood.log.calls.outcome import change
from cordwood.log.calls.threads import call, call_until_done
from cordwood.log.interface import Follow, Log
from cordwood.log.native.folder.process import OpenFolder
from cordwood.log.native.folder.written_log import WrittenLog
from cordwood.log.native.stream.append import Append
from cordwood.log.native.stream.reading.cursor import Source, offset_at, read_known
from cordwood.records import FRAME_BYTES_MAX, GROUP_WEIGHT_MAX, Batch, StoredRecord, frame_bytes

from .part import Part
from .reader import FolderReader
from .sources import ends_at_call, raise_failure, source_of

T = TypeVar("T")


class FolderLog(Log):
    """One log of a connection to a folder."""

    def __init__(self, connection: Connection[OpenFolder], topic: str, partition: int, timeout: float) -> None:
        self.topic = topic
        self.partition = partition
        self._connection = connection
        self._folder = connection.shared
        self._timeout = timeout
        self._log: WrittenLog | None = None
        # The last loop that appended, and its notifier: comparing loops is cheaper than looking the notifier up.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._notifier: Callable[[list[Append]], None] = complete

    @property
    def verifies_reads(self) -> bool:
        return True

    async def append(self, batch: Batch, *, expected: int | None = None, timeout: float | None = None) -> range:
        if not isinstance(batch, Batch):
            raise TypeError(f"append takes a cordwood.Batch, not {type(batch).__name__}")
        if expected is not None:
            expected = whole_number("expected", expected)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._notifier = loop, notifier_of(loop)
        future: asyncio.Future[range] = loop.create_future()
        deadline = time.monotonic() + (self._timeout if timeout is None else checked_timeout(timeout))
        append = Append(batch, len(batch), future, self._notifier, deadline, expected)
        try:
            if self._connection.closed or self._folder.gone is not None:
                self._connection.check()
            # The exact size is computed only if the cheap upper bound does not already show that the batch fits.
            if not append.count or append.weight > GROUP_WEIGHT_MAX:
                check_size(self.name, batch)
            log = self._log or self._writable_log()
            try:
                submitted = log.submit(append)
            except NotFound:
                # Deleted; perhaps there is a new topic of that name.
                log = self._writable_log()
                submitted = log.submit(append)
            while not submitted:
                await wait_for_room(self.name, log.when_room, deadline)
                submitted = log.submit(append)
        except CordwoodError as error:
            error.outcome = "not_written"
            raise
        return await future

    def read(
        self,
        start: int | None = None,
        stop: int | None = None,
        follow: Follow = False,
        topic_id: str | None = None,
    ) -> FolderReader:
        self._connection.check()
        start, stop = checked_range(start, stop)
        checked_follow(follow)
        raise_failure(self._folder, self.topic, self.partition)
        part = Part(
            self.name,
            self.partition,
            partial(source_of, self._folder, self.topic, self.partition, checked_topic_id(topic_id)),
            start=start,
            stop=stop,
            follow=follow,
            ends=None if follow or stop is not None else ends_at_call(self._folder, self.topic, [self.partition]),
        )
        reader = FolderReader(
            self.name,
            self._folder.executor,
            [part],
            follow=follow,
            check=self._connection.check,
            timeout=self._timeout,
        )
        self._connection.readers.add(reader)
        return reader

    async def fetch(
        self,
        offsets: Sequence[int],
        *,
        bytes_max: int | None = None,
        uncommitted: bool = False,
        timeout: float | None = None,
    ) -> list[StoredRecord]:
        known = checked_known(offsets)
        return await self._call(timeout, "fetch", lambda: read_known(self._source(), known, bytes_max))

    async def bounds(self, *, timeout: float | None = None) -> tuple[int, int]:
        view = await self._call(timeout, "bounds", lambda: self._source().extent())
        return view.start, view.durable.next_offset

    async def offset_at(self, when: datetime, *, timeout: float | None = None) -> int:
        timestamp = milliseconds_at(when)
        return await self._call(timeout, "offset_at", lambda: offset_at(self._source(), timestamp))

    async def trim(self, before: int, *, timeout: float | None = None) -> None:
        self._connection.check_writable()
        before = whole_number("before", before)
        if before < 0:
            raise InvalidInput(f"{self.name}: cannot trim before {before}: offsets begin at 0", outcome="not_written")
        raise_failure(self._folder, self.topic, self.partition)
        seconds = self._timeout if timeout is None else checked_timeout(timeout)
        with change():
            await call_until_done(
                self._folder.executor,
                seconds,
                f"{self.name}: trim",
                lambda done: self._folder.writing().log(self.topic, self.partition).trim(before, done),
            )

    def __repr__(self) -> str:
        return f"<cordwood.Log {self.name} in {self._folder.path}>"

    def _source(self) -> Source:
        return self._folder.source(self.topic, self.partition)

    def _writable_log(self) -> WrittenLog:
        self._connection.check_writable()
        self._log = self._folder.appending().log(self.topic, self.partition)
        return self._log

    async def _call(self, timeout: float | None, what: str, function: Callable[[], T]) -> T:
        self._connection.check()
        raise_failure(self._folder, self.topic, self.partition)
        seconds = self._timeout if timeout is None else checked_timeout(timeout)
        return await call(self._folder.executor, seconds, f"{self.name}: {what}", function)


def check_size(log: str, batch: Batch) -> None:
    """Refuse a batch that one append to a folder cannot take."""
    if not len(batch):
        raise InvalidInput(f"{log}: the batch is empty: a batch has at least 1 record")
    if (size := frame_bytes(batch)) > FRAME_BYTES_MAX:
        raise TooLarge(f"{log}: the batch is {size} bytes framed, the limit is {FRAME_BYTES_MAX}: split it")

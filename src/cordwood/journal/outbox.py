"""Sending records: those of one turn of the event loop leave as one batch per partition.

Every record is one action. The outbox repeats a batch whose outcome is unknown, unchanged, as long as a caller waits
for it: no action of ours counts twice (R20, R40). Acked records go to the tail reader, and so to their senders.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cordwood.errors import CordwoodError, TooLarge, Unavailable
from cordwood.log.calls.outcome import copy_for_caller
from cordwood.log.interface import Log
from cordwood.records import Batch, StoredBatch

from .action import ACTION_HEADER
from .fold import Told
from .topic import JournalTopic

_LOGGER = logging.getLogger("cordwood.journal")

_RECORD_BYTES = 160
"""The bytes of a record in a frame besides its key, header and value, at most."""
_BACKOFF_SECONDS = (0.02, 1.0)


class Outgoing:
    """One record to send. The subclasses know who waits for it."""

    __slots__ = ()

    key: bytes | None
    told: Told
    header: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    record_bytes: int
    """Its size in a frame, at most; `check_size` sets it."""

    @property
    def wanted(self) -> bool:
        """Whether to send it, or to send it again: somebody waits for it."""
        raise NotImplementedError

    def on_failed(self, error: CordwoodError) -> None:
        """It was not written, or nobody knows, and it is not sent again."""
        raise NotImplementedError


class Sent(NamedTuple):
    """A record as it was sent: an append that lost gets another number, while this copy may still be under way."""

    record: Outgoing
    told: Told
    header: bytes
    value: bytes | None


class Acked(NamedTuple):
    """Records of one batch, which have their offsets."""

    partition: int
    sent: Sequence[Sent]
    offsets: Sequence[int]
    timestamp: int


class Outbox:
    """The records of one topic that are about to be sent."""

    def __init__(self, topic: JournalTopic, on_acked: Callable[[Acked, StoredBatch], None]) -> None:
        self._topic = topic
        self._on_acked = on_acked
        self._loop = asyncio.get_running_loop()
        self._records: dict[int, list[Outgoing]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._closing = False
        self._logs: dict[int, Log] = {}
        self._bytes_max = topic.info.batch_bytes_max
        # A third of the time: a repetition has to fit into the rest.
        self._send_seconds = max(1.0, topic.timeout / 3)

    def check_size(self, record: Outgoing) -> None:
        """Raise `TooLarge` if the topic does not take such a record."""
        size = _size(record)
        record.record_bytes = size  # type: ignore[misc]  # the subclasses have the slot
        if size > self._bytes_max:
            raise TooLarge(
                f"the append to {self._topic.name!r} is {size} bytes as a record, the limit of the topic is"
                f" {self._bytes_max}: append fewer events at once",
                outcome="not_written",
            )

    def put(self, partition: int, record: Outgoing) -> None:
        """Send the record with all others of this turn of the loop."""
        if self._closing:
            raise Unavailable(f"journal {self._topic.name!r} was closed", outcome="not_written", reason="closed")
        if not self._records:
            self._loop.call_soon(self._flush)
        self._records.setdefault(partition, []).append(record)

    async def close(self) -> None:
        """Wait for the batches under way; from now on none is repeated, and none begins."""
        self._closing = True
        self._flush()
        while self._sending:
            await asyncio.wait(self._sending)

    def _flush(self) -> None:
        waiting, self._records = self._records, {}
        for partition, records in waiting.items():
            for part in _split(records, self._bytes_max):
                self._start(partition, part)

    def _start(self, partition: int, records: list[Outgoing]) -> None:
        sent = [Sent(record, record.told, record.header, record.value) for record in records]
        task = self._loop.create_task(self._send(partition, sent))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, partition: int, sent: list[Sent]) -> None:
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = self._topic.log(partition)
        pause = _BACKOFF_SECONDS[0]
        doubtful = False
        while sent := [copy for copy in sent if copy.record.wanted and copy.record.told is copy.told]:
            timestamp = self._topic.now_ms()
            values = [copy.value for copy in sent]
            keys: list[bytes | None] = [copy.record.key for copy in sent]
            headers = [((ACTION_HEADER, copy.header), *copy.record.headers) for copy in sent]
            batch = Batch.of(values, keys=keys, headers=headers, timestamps=[timestamp] * len(sent))
            try:
                offsets = await log.append(batch, timeout=self._send_seconds)
            except CordwoodError as error:
                if error.outcome != "unknown":
                    # After an unknown outcome a refusal says nothing about the copy before it.
                    final = copy_for_caller(error, "unknown") if doubtful else error
                    _fail(sent, final)
                    return
                if self._closing:
                    # Nobody may wait for it any more, as for a Mark whose readers have given up.
                    _fail(sent, error)
                    return
                doubtful = True
                _LOGGER.info("%s: an append has an unknown outcome, and is repeated: %s", log.name, error)
            else:
                stored = StoredBatch.from_rows(
                    offsets, values, keys=keys, headers=batch.headers, timestamps=[timestamp] * len(sent)
                )
                self._on_acked(Acked(partition, sent, offsets, timestamp), stored)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _BACKOFF_SECONDS[1])


def _fail(sent: Sequence[Sent], error: CordwoodError) -> None:
    for copy in sent:
        if copy.record.told is copy.told:
            copy.record.on_failed(error)


def _size(record: Outgoing) -> int:
    size = len(record.key or b"") + len(record.header) + len(record.value or b"") + _RECORD_BYTES
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 16
    return size


def _split(records: list[Outgoing], bytes_max: int) -> list[list[Outgoing]]:
    """Parts that one append takes each, in order."""
    parts: list[list[Outgoing]] = [[]]
    size = 0
    for record in records:
        own = record.record_bytes
        if parts[-1] and size + own > bytes_max:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += own
    return parts

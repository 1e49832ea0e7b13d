"""The properties that an engine declares to the suite, and the fixtures of every test."""

import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, ClassVar

import pytest

from cordwood import client, sync
from cordwood.client import Client
from cordwood.errors import CordwoodError
from cordwood.log import Log, Reader
from cordwood.records import Batch, StoredRecord, frame_bytes
from cordwood.testing.promises import Promises
from cordwood.testing.promises import promised as promised


class UnderTest(Promises):
    """The engine under test: its promises, how to connect to it, and the fixtures of all tests."""

    dense: ClassVar[bool] = True
    """Offsets follow each other without gaps; else they only increase."""
    atomic_batches: ClassVar[bool] = True
    """A batch that cannot be written whole leaves no record."""
    expected_offsets: ClassVar[bool] = True
    """`append(expected=…)` holds."""
    acks_in_order: ClassVar[bool] = True
    """Appends to one log from one event loop return in the order of their offsets."""
    reopens: ClassVar[bool] = True
    """Records survive for the next connection after all others were closed."""
    batch_bytes_max: ClassVar[int] = 2 * 1024 * 1024
    """The `TopicInfo.batch_bytes_max` of a new topic."""
    timestamp_min: ClassVar[int] = 0
    """The earliest timestamp that a record can have."""
    segment_bytes: ClassVar[int] = 6 * 1024 * 1024
    """So many bytes of records do not fit into the first segment of a log."""
    topics_many: ClassVar[int] = 1000
    """With so many topics every call still ends in a bounded time."""

    @pytest.fixture
    def url(self) -> str:
        """The url of the engine's logs; the same during one test."""
        raise NotImplementedError(f"{type(self).__name__} has no fixture `url`: it says where the logs are")

    def connect(self, url: str) -> AbstractAsyncContextManager[Client]:
        """A new connection; an engine without a url of its own makes its `Client` here."""
        return client.connect(url)

    def connect_blocking(self, url: str) -> sync.Client:
        """A new connection of the blocking twin."""
        return sync.connect(url)

    def batch_of_bytes(self, size: int) -> Batch:
        """A batch of one record that counts as `size` bytes against `batch_bytes_max`."""
        batch = Batch.of([bytes(size - frame_bytes(Batch.of([b""])))])
        assert frame_bytes(batch) == size
        return batch

    @pytest.fixture
    def topic(self) -> str:
        """The name of a topic that does not exist, and that no other test uses."""
        return f"conformance-{secrets.token_hex(6)}"

    @pytest.fixture
    async def cw(self, url: str) -> AsyncIterator[Client]:
        """A connection."""
        async with self.connect(url) as cw:
            yield cw

    @pytest.fixture
    async def log(self, cw: Client, topic: str) -> Log:
        """The only log of a new topic."""
        await cw.create_topic(topic)
        return cw.log(topic)

    def check_offsets(self, offsets: Sequence[int], first: int, count: int) -> None:
        """Check offsets against the promise: these exactly if dense, else as many, in order, none below `first`."""
        if self.dense:
            assert offsets == range(first, first + count)
        else:
            assert len(offsets) == count
            assert list(offsets) == sorted(set(offsets))
            assert offsets[0] >= first


async def records_of(reader: Reader) -> list[StoredRecord]:
    """All records up to the reader's end."""
    return [record async for batch in reader for record in batch]


async def values_of(log: Log, start: int | None = None, stop: int | None = None) -> list[bytes | None]:
    """The values of [start, stop)."""
    return [record.value for record in await records_of(log.read(start, stop))]


async def take(reader: Reader, count: int) -> list[StoredRecord]:
    """At least `count` records of a reader that may have more."""
    records: list[StoredRecord] = []
    while len(records) < count:
        records += await anext(reader)
    return records


def numbered(count: int, prefix: str = "") -> list[bytes | None]:
    """Values that contain their index."""
    return [f"{prefix}{index}".encode() for index in range(count)]


@contextmanager
def raises_as_write(kind: type[CordwoodError], outcome: str) -> Iterator[pytest.ExceptionInfo[Any]]:
    """`pytest.raises` for a write: the error must also have this outcome."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.outcome == outcome, f"{caught.value!r} has the outcome {caught.value.outcome!r}"

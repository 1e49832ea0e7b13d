"""An open plog: the file, how far it is written, and how far it is synced."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cordwood.errors import Conflict, InvalidInput, Sealed, TooLarge, Unavailable, reason_of
from cordwood.log.native.env.disk import File
from cordwood.records import Piece

from .id import PlogId
from .seal import SEAL_BYTES, Seal

APPEND_BYTES_MAX = 2 * 1024 * 1024

# From this length on, the disk starts at once: batches of 1 MiB, 4 in flight, take 1.1 ms each instead of 1.4 ms.
_EARLY_BYTES = 256 * 1024


class PlogStatus(NamedTuple):
    end: int
    synced_end: int
    size: int
    sealed: bool


class Plog:
    """One writer's handle. Not thread-safe: a plog has one writer, and reads use handles of their own.

    `end` is the position of the next append; `synced_end` is at or below it. A failed write or sync is final for this
    plog: the kernel may have dropped the pages and report the next sync as a success.
    """

    def __init__(self, id: PlogId, file: File, size: int, closed: Callable[[], None] = lambda: None) -> None:
        self.id = id
        self.size = size
        self.end = 0
        self.synced_end = 0
        self.failed: OSError | None = None
        self.open = True
        self._file = file
        self._closed = closed
        self._seal: Seal | None = None

    def append(self, pieces: Iterable[Piece], length: int, position: int) -> None:
        """Write `length` bytes at `position`, which must be the end. Nothing is durable before `sync`.

        The bytes come in pieces, which may be made one by one.
        """
        if self._seal is not None:
            raise Sealed(f"plog {self.id} is sealed at {self._seal.end}: append to the stream's last plog")
        if self.failed is not None:
            raise Unavailable(
                f"plog {self.id} failed earlier and takes no more: {self.failed}", reason=reason_of(self.failed)
            ) from self.failed
        if position != self.end:
            raise Conflict(f"plog {self.id} ends at {self.end}, not at {position}", actual=self.end)
        if length > APPEND_BYTES_MAX:
            raise TooLarge(f"an append of {length} bytes: a plog takes at most {APPEND_BYTES_MAX} at once")
        if position + length > self.size:
            raise TooLarge(f"plog {self.id} has {self.size - position} bytes left, {length} are asked for")
        try:
            for at, buffers, size in pieces:
                self._file.write(buffers, position + at, size)
                if size >= _EARLY_BYTES:
                    # The disk writes this piece while the next one is being made.
                    self._file.begin_sync(position + at, size)
        except OSError as error:
            self.failed = error
            raise
        self.end = position + length

    def sync(self) -> None:
        """Make everything up to `end` durable; after a failure never again on this file."""
        if self.failed is not None:
            raise Unavailable(
                f"plog {self.id} failed earlier: {self.failed}", reason=reason_of(self.failed)
            ) from self.failed
        try:
            self._file.sync()
        except OSError as error:
            self.failed = error
            raise
        self.synced_end = self.end

    def read(self, size: int, position: int) -> memoryview:
        if position < 0 or size < 0:
            raise InvalidInput(f"cannot read {size} bytes at {position}: both must be 0 or more")
        return self._file.read(min(size, max(0, self.end - position)), position)

    def seal(self, end: int, *, next_offset: int, max_timestamp: int) -> int:
        """Seal at `end` or at the plog's own end, whichever is smaller, and free the rest of the space.

        The seal in the file is durable after the next `sync`.
        """
        if self._seal is not None:
            return self._seal.end
        sealed_end = min(end, self.end)
        seal = Seal(self.id.random, sealed_end, next_offset, max_timestamp)
        self._file.truncate(sealed_end)
        self._file.write([seal.encode()], sealed_end)
        self._seal = seal
        self.end = sealed_end
        self.synced_end = min(self.synced_end, sealed_end)
        return sealed_end

    def status(self) -> PlogStatus:
        return PlogStatus(self.end, self.synced_end, self.size, self._seal is not None)

    def give_back(self) -> None:
        """Free the allocated space that is not written, for an idle log."""
        self._file.truncate(self.end)
        self._file.sync()

    def reserve(self) -> None:
        """Allocate the whole size again, before the next write."""
        self._file.allocate(self.size + SEAL_BYTES)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.open:
            self.open = False
            self._file.close()
            self._closed()

    def attach(self, file: File) -> None:
        self._file = file
        self.open = True

"""The lines of a pipe, a terminal or a file, a batch at a time and in bounded memory."""

import asyncio
import os
import select

from cordwood.errors import TooLarge

BATCH_BYTES = 1024 * 1024
"""A batch is full at this many bytes, or at half the limit of an append: far more work than a sync."""

_READ_BYTES = 256 * 1024


class LineBatches:
    """Takes the lines that are ready, up to a batch, and waits only while there are none.

    So each line of a program that writes now and then is appended at once, and a large file is appended in large
    batches. `record_bytes` are the bytes of a record besides its line, `append_bytes_max` the limit of an append. A
    line that is no value itself may be longer than that: `line_bytes_max`.
    """

    def __init__(
        self, descriptor: int, record_bytes: int, append_bytes_max: int, line_bytes_max: int | None = None
    ) -> None:
        self._descriptor = descriptor
        self._record_bytes = record_bytes
        self._line_bytes_max = append_bytes_max if line_bytes_max is None else line_bytes_max
        self._batch_bytes = min(BATCH_BYTES, append_bytes_max // 2)
        self._lines: list[bytes] = []
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._count = 0
        self._at_end = False
        self._too_long: TooLarge | None = None

    async def next(self) -> list[bytes]:
        """The next lines, without line ends; none at the end. Raises `TooLarge` after all lines before the long one."""
        while not self._lines and not self._at_end:
            await readable(self._descriptor)
            self._read_what_is_there()
        if not self._lines and self._too_long is not None:
            raise self._too_long
        return self._take()

    def _read_what_is_there(self) -> None:
        self._read()
        while self._weight() < self._batch_bytes and not self._at_end and _has_more(self._descriptor):
            self._read()

    def _weight(self) -> int:
        return sum(map(len, self._lines)) + self._record_bytes * len(self._lines) + self._rest_bytes

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "the input") from error  # a descriptor has no file name
        if not data:
            self._at_end = True
            data = b"" if not self._rest_bytes else b"\n"  # the last line may have no line end
        head, *tail = data.split(b"\n")
        self._rest.append(head)
        self._rest_bytes += len(head)
        if self._is_too_long():
            return
        if tail:
            self._lines.append(b"".join(self._rest))
            *whole, last = tail
            self._lines += whole
            self._rest, self._rest_bytes = [last], len(last)

    def _is_too_long(self) -> bool:
        if self._rest_bytes <= self._line_bytes_max:
            return False
        number = self._count + len(self._lines) + 1
        reason = f"line {number} has more than {self._line_bytes_max} bytes: split it"
        self._too_long = TooLarge(reason, outcome="not_written")
        self._at_end = True
        return True

    def _take(self) -> list[bytes]:
        size = 0
        for place, line in enumerate(self._lines):
            size += len(line) + self._record_bytes
            if size > self._batch_bytes and place:
                break
        else:
            place = len(self._lines)
        taken, self._lines = self._lines[:place], self._lines[place:]
        self._count += len(taken)
        return taken


async def readable(descriptor: int) -> None:
    """Wait until a read would not block."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # a file, or /dev/null: a read never blocks
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _has_more(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))

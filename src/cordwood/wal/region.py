"""A region: one log that many tables share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from cordwood.errors import CordwoodError, InvalidInput, Timeout, Unavailable
from cordwood.wal.codec import checked_payloads
from cordwood.wal.data_log import DataLog
from cordwood.wal.fence import Fence
from cordwood.wal.names import checked_id
from cordwood.wal.reader import RegionReader, Wanted
from cordwood.wal.recovery import Apply, Recovery, RecoveryReport
from cordwood.wal.state import TableMeta
from cordwood.wal.writer import Write, Writer


class Region:
    """A log that many tables share, with one owner. Made by `wal.region(id)`; used in the event loop that opened it.

    ```python
    async with wal.region(7) as region:
        await region.write(42, [b"first", b"second"])  # range(1, 3)
    ```
    """

    id: int

    def __init__(self, data: DataLog, writer: Writer | None) -> None:
        """With no writer it only reads."""
        self.id = data.region
        self._data = data
        self._writer = writer
        self._closed = False

    async def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> range:
        """Write logs of one table, all or none of them, and return their sequence numbers once they are durable.

        Numbers of a table begin at 1 and only grow. `Fenced`: another owner has the region. A cancelled write, and one
        whose time is over, may become durable.

        ```python
        await region.write(42, [b"first", b"second"])  # range(1, 3)
        ```
        """
        writer = self._writable()
        column = writer.column_of(checked_id("table", table), checked_payloads(payloads))
        if writer.full:
            await writer.room(timeout)
        write = writer.put(table, len(payloads), column)
        # Without a limit of its own it has those of the appends that it takes.
        return await (write.future if timeout is None else self._in_time(write, timeout))

    async def write_many(
        self, writes: Mapping[int, Sequence[bytes]], *, timeout: float | None = None
    ) -> dict[int, range]:
        """Write logs of several tables; what is of one table is all or nothing: {table: sequence numbers}.

        If some fail, the error has `written` and `unknown`: the numbers of the tables that did and that may have
        succeeded. Of what cannot be written at all (`InvalidInput`, `TooLarge`) no table's logs are.

        ```python
        await region.write_many({42: [b"a"], 43: [b"b", b"c"]})  # {42: range(3, 4), 43: range(1, 3)}
        ```
        """
        writer = self._writable()
        columns = {
            table: writer.column_of(checked_id("table", table), checked_payloads(payloads))
            for table, payloads in writes.items()
        }
        if not columns:
            return {}
        if writer.full:
            await writer.room(timeout)
        under_way = [writer.put(table, len(writes[table]), column) for table, column in columns.items()]
        waits = [w.future if timeout is None else self._in_time(w, timeout) for w in under_way]
        return _all_or_error(under_way, await asyncio.gather(*waits, return_exceptions=True))

    def replay(self) -> RegionReader:
        """Read the whole region in log order, to the end at the call.

        ```python
        async with region.replay() as reader:
            async for logs in reader:
                print(logs.table, logs.sequences, list(logs.payloads))
        ```
        """
        self._check_open()
        start = self._data.state.fence.start
        return self._reader(start, None, Fence(start), Wanted())

    def read(self, table: int, start: int = 1, stop: int | None = None) -> RegionReader:
        """Read the logs of one table with the sequence numbers [start, stop), to the end at the call.

        ```python
        async with region.read(42, start=2) as reader:
            async for logs in reader:
                print(logs.sequences, list(logs.payloads))
        ```
        """
        self._check_open()
        checked_id("table", table)
        for name, sequence in (("start", start), ("stop", stop)):
            if sequence is not None and sequence < 1:
                raise InvalidInput(f"{name} is {sequence}: sequence numbers begin at 1")
        wanted = Wanted(table, start, stop)
        state = self._data.state
        found = state.offset_of(table, start)
        if found is None:
            # Nothing of it that is known here; what is written elsewhere, or on its way, may hold some.
            return self._reader(state.next_offset, None, replace(state.fence), wanted)
        # A place that the mapping names holds a write that counts, so its owner is the owner there.
        return self._reader(found, None, Fence(start=found), wanted)

    async def recover(
        self, apply: Apply, tables: Collection[int] | None = None, concurrency: int = 8
    ) -> RecoveryReport:
        """Replay the tables, all or these, each in its order: `await apply(table, logs)` for each of their writes.

        The region is read once for all of them. Up to `concurrency` tables are applied at a time; one that is slow, or
        for which `apply` raises, holds back none of the others. What it raised is in the report, under `failed`.

        ```python
        report = await region.recover(apply)
        print(report.applied, report.failed)
        ```
        """
        self._check_open()
        if concurrency < 1:
            raise InvalidInput(f"concurrency is {concurrency}: at least 1 table is applied at a time")
        _, stop = await self._data.log.bounds()
        first = self._data.state.fence.start

        def scan(start: int | None) -> RegionReader:
            at = first if start is None else start
            return self._reader(at, stop, Fence(at), Wanted())

        return await Recovery(scan, apply, tables).run(concurrency)

    def tables(self) -> dict[int, TableMeta]:
        """What is known of each table that was written: numbers, and where it lies. No I/O.

        ```python
        region.tables()[42].next_sequence  # 3
        ```
        """
        self._check_open()
        return self._data.state.tables()

    async def close(self) -> None:
        """Finish the writes under way, and let go; twice is fine. It is closed for everybody who has this object."""
        self._closed = True
        if self._writer is not None:
            await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "open" if self._writer else "read-only"
        if not self._usable():
            state = "closed" if self._closed else "fenced"
        return f"<cordwood.Region {self.id} in {self._data.log.name} {state}>"

    def _usable(self) -> bool:
        return not self._closed and (self._writer is None or self._writer.fenced is None)

    def _reader(self, start: int, stop: int | None, fence: Fence, wanted: Wanted) -> RegionReader:
        return RegionReader(self._data.log.read(start, stop), self.id, self._data.log.name, fence, wanted)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"region {self.id} in {self._data.log.name} is closed: open it again")

    def _writable(self) -> Writer:
        if self._writer is None:
            raise Unavailable(
                f"region {self.id} was opened on a connection with read_only=True: it cannot be written",
                outcome="not_written",
            )
        self._writer.check()
        return self._writer

    async def _in_time(self, write: Write, timeout: float) -> range:
        try:
            async with asyncio.timeout(timeout):
                return await write.future
        except TimeoutError as error:
            if isinstance(error, CordwoodError):
                raise
            raise Timeout(
                f"region {self.id}: a write of table {write.table} took more than {timeout} s: read the table to see",
                outcome="unknown",
            ) from error


def _all_or_error(writes: list[Write], results: Sequence[range | BaseException]) -> dict[int, range]:
    numbers = {write.table: range(write.first, write.first + write.count) for write in writes}
    failed = {w.table: error for w, error in zip(writes, results, strict=True) if isinstance(error, BaseException)}
    if not failed:
        return numbers
    unknown = {table: error for table, error in failed.items() if getattr(error, "outcome", None) != "not_written"}
    worst = next(iter((unknown or failed).values()))
    if isinstance(worst, CordwoodError):
        worst.written = {table: range_ for table, range_ in numbers.items() if table not in failed}
        worst.unknown = {table: numbers[table] for table in unknown}
        if worst.written and worst.outcome == "not_written":
            worst.outcome = "unknown"
    raise worst

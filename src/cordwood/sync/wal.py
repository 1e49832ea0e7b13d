"""A write-ahead log: blocking."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeAlias

from cordwood import wal
from cordwood.log.arguments import whole_number
from cordwood.sync.callbacks import on_a_thread
from cordwood.sync.portal import Portal
from cordwood.sync.reader import Crossing
from cordwood.wal import RecoveryReport, RegionStats, TableEntries, TableMeta

Apply: TypeAlias = Callable[[int, TableEntries], None]

_FLUSHES_MAX = 32


class Wal:
    """A write-ahead log: regions, which are logs that many tables share. Making one does no I/O.

    ```python
    with cw.wal("metrics").region(7) as region:
        region.write(42, [b"first", b"second"])
    ```
    """

    name: str

    def __init__(self, wal: wal.Wal, through: Portal) -> None:
        self.name = wal.name
        self._wal = wal
        self._portal = through

    def regions(self, *, timeout: float | None = None) -> list[int]:
        """The ids of all its regions, sorted."""
        return self._portal.call(self._wal.regions, timeout=timeout)

    def region(self, id: int, *, create: bool = True, timeout: float | None = None) -> "Region":
        """Open a region, or make it. `create=False`: `NotFound` if there is none.

        Whoever opens a region owns it: an earlier owner is fenced, and can write no more. This object gives back
        the region that it has open. On a read-only connection nobody is fenced, and nothing is made.

        ```python
        with wal.region(7) as region:
            ...
        ```
        """
        opening = self._wal.region(id, create=create, timeout=timeout)
        return Region(self._portal.call(opening.__aenter__), self._portal)

    def close(self) -> None:
        """Close the regions that it has open; twice is fine."""
        self._portal.call_to_close(self._wal.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cordwood.sync.Wal of {self._wal!r}>"


class Region:
    """A log that many tables share, with one owner. It may be used from several threads.

    ```python
    with wal.region(7) as region:
        region.write(42, [b"first", b"second"])  # range(1, 3)
    ```
    """

    id: int

    def __init__(self, region: wal.Region, through: Portal) -> None:
        self.id = region.id
        self._region = region
        self._portal = through

    def write(self, table: int, payloads: Sequence[bytes], *, timeout: float | None = None) -> range:
        """Write logs of one table, all or none of them, and return their sequence numbers once they are durable.

        Numbers of a table begin at 1 and only grow. `Fenced`: another owner has the region. An interrupted write,
        and one whose time is over, may become durable.

        ```python
        region.write(42, [b"first", b"second"])  # range(1, 3)
        ```
        """
        return self._portal.call(self._region.write, table, payloads, timeout=timeout)

    def write_many(self, writes: Mapping[int, Sequence[bytes]], *, timeout: float | None = None) -> dict[int, range]:
        """Write logs of several tables; what is of one table is all or nothing: {table: sequence numbers}.

        If some fail, the error has `written` and `unknown`: the numbers of the tables that did and that may have
        succeeded. Of what cannot be written at all (`InvalidInput`, `TooLarge`) no table's logs are.
        """
        return self._portal.call(self._region.write_many, writes, timeout=timeout)

    def replay(self) -> "RegionReader":
        """Read the whole region in log order, to the end at the call."""
        return RegionReader(self._portal.call(self._replay), self._portal)

    def read(self, table: int, start: int = 1, stop: int | None = None) -> "RegionReader":
        """Read the logs of one table with the sequence numbers [start, stop), to the end at the call.

        ```python
        with region.read(42, start=2) as reader:
            for logs in reader:
                print(logs.sequences, list(logs.payloads))
        ```
        """
        return RegionReader(self._portal.call(self._read, table, start, stop), self._portal)

    def recover(self, apply: Apply, tables: Collection[int] | None = None, concurrency: int = 8) -> RecoveryReport:
        """Replay the tables, all or these, each in its order: `apply(table, logs)` for each of their writes.

        The region is read once for all of them. Up to `concurrency` tables are applied at a time, each on a thread; one
        that is slow, or for which `apply` raises, holds back none of the others. What it raised is in the report, under
        `failed`.
        """
        # Not the loop's own threads, which are few: each call may wait for another one.
        threads = ThreadPoolExecutor(max(1, whole_number("concurrency", concurrency)), "cordwood-apply")

        async def apply_there(table: int, logs: TableEntries) -> None:
            await on_a_thread(threads, apply, table, logs)

        try:
            return self._portal.call(self._region.recover, apply_there, tables, concurrency)
        finally:
            threads.shutdown(wait=False)

    def tables(self) -> dict[int, TableMeta]:
        """What is known of each table that was written: numbers, and where it lies. No I/O."""
        return self._portal.call(self._tables)

    def mark_deleted(self, table: int, *, through: int, timeout: float | None = None) -> None:
        """Say that the logs of a table up to this number, and with it, are not needed any more.

        It is durable on return: they are not given out again, and cleaning makes room of them. At or below an earlier
        mark, and for a table that is dropped or was never written, it has no effect. Beyond the table's last log it is
        `InvalidInput`.

        ```python
        region.mark_deleted(42, through=2)
        ```
        """
        self._portal.call(self._region.mark_deleted, table, through=through, timeout=timeout)

    def drop_table(self, table: int, *, timeout: float | None = None) -> None:
        """Delete all logs of a table that were written before the call, and the table; durable on return.

        Its numbers never come back: a write makes the table anew, and goes on behind them. Twice, or of a table that
        was never written, it has no effect.
        """
        self._portal.call(self._region.drop_table, table, timeout=timeout)

    def snapshot(self, *, timeout: float | None = None) -> None:
        """Write down what is known of the tables, so that the next open reads only what comes after it.

        It is also made by itself: every 64 MiB, 10,000 writes or 10,000 marks (more, where there are more tables), on a
        drop, by the cleaner and on close.
        """
        self._portal.call(self._region.snapshot, timeout=timeout)

    def clean(self, *, timeout: float | None = None) -> None:
        """Trim what no table needs any more, after a snapshot that says so.

        The oldest live log of any table is where it ends. It is also done in the background, see `cw.wal`.
        """
        self._portal.call(self._region.clean, timeout=timeout)

    def stats(self) -> RegionStats:
        """How the region is doing: its size, and who holds it back. No I/O."""
        return self._portal.call(self._stats)

    def close(self) -> None:
        """Finish what is under way, leave a snapshot, and let go; twice is fine.

        It is closed for everybody who has this region.
        """
        self._portal.call_to_close(self._region.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cordwood.sync.Region of {self._region!r}>"

    # On the loop: the state of a region belongs to it.

    async def _replay(self) -> wal.RegionReader:
        return self._region.replay()

    async def _read(self, table: int, start: int, stop: int | None) -> wal.RegionReader:
        return self._region.read(table, start, stop)

    async def _tables(self) -> dict[int, TableMeta]:
        return self._region.tables()

    async def _stats(self) -> RegionStats:
        return self._region.stats()


class RegionReader:
    """The logs of a region, in the order in which they were written: an iterator, and a context manager.

    ```python
    with region.replay() as reader:
        for logs in reader:
            print(logs.table, logs.sequences, list(logs.payloads))
    ```
    It may be iterated bare; then it closes at its end, with the connection, or when nobody has it any more.
    """

    def __init__(self, reader: wal.RegionReader, through: Portal) -> None:
        self._crossing = Crossing(self, reader, through)

    def __repr__(self) -> str:
        return f"<blocking {self._crossing!r}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TableEntries:
        return self._crossing.next()

    def close(self) -> None:
        """Stop reading; twice is fine. A `next` that waits in another thread ends with StopIteration."""
        self._crossing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


OnFlushNeeded: TypeAlias = Callable[[Region, list[int]], None]


def ask_on_a_thread(ask: OnFlushNeeded, through: Portal) -> wal.OnFlushNeeded:
    """The loop goes on while it runs: it uses the region, from its thread."""
    # A pool that Python waits for when the program ends, with the loop still there: a flush is not cut off half-way.
    threads = ThreadPoolExecutor(_FLUSHES_MAX, "cordwood-flush")

    async def ask_there(region: wal.Region, tables: list[int]) -> None:
        await on_a_thread(threads, ask, Region(region, through), tables)

    return ask_there

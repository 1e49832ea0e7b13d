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
    """A write-ahead log: regions, which are logs that many tables share. The constructor does no I/O.

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
        """Open a region, or create it. With `create=False` raise `NotFound` if there is none.

        An open makes this object the owner: an earlier owner is fenced, and can write no more. This object returns
        the region that it has open already. A read-only connection fences no owner, and creates nothing.

        ```python
        with wal.region(7) as region:
            ...
        ```
        """
        opening = self._wal.region(id, create=create, timeout=timeout)
        return Region(self._portal.call(opening.__aenter__), self._portal)

    def close(self) -> None:
        """Close the open regions; a second call has no effect."""
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
        """Write entries of one table, all or none of them, and return their sequence numbers once they are durable.

        Numbers of a table begin at 1 and only grow. Raises `Fenced` if another owner has the region. A write that is
        interrupted or times out may become durable.

        ```python
        region.write(42, [b"first", b"second"])  # range(1, 3)
        ```
        """
        return self._portal.call(self._region.write, table, payloads, timeout=timeout)

    def write_many(self, writes: Mapping[int, Sequence[bytes]], *, timeout: float | None = None) -> dict[int, range]:
        """Write entries of several tables, those of each table all or nothing; returns {table: sequence numbers}.

        If some tables fail, the error has `written` and `unknown`: the numbers of the tables that succeeded, and of
        those that may have. A call that raises `InvalidInput` or `TooLarge` writes no table.
        """
        return self._portal.call(self._region.write_many, writes, timeout=timeout)

    def replay(self) -> "RegionReader":
        """Read the whole region in log order, to the end at the call."""
        return RegionReader(self._portal.call(self._replay), self._portal)

    def read(self, table: int, start: int = 1, stop: int | None = None) -> "RegionReader":
        """Read the entries of one table with the sequence numbers [start, stop), to the end at the call.

        ```python
        with region.read(42, start=2) as reader:
            for entries in reader:
                print(entries.sequences, list(entries.payloads))
        ```
        """
        return RegionReader(self._portal.call(self._read, table, start, stop), self._portal)

    def recover(self, apply: Apply, tables: Collection[int] | None = None, concurrency: int = 8) -> RecoveryReport:
        """Replay the tables, all or these, each in its order: call `apply(table, entries)` for each of their writes.

        It reads the region once for all of them, and applies up to `concurrency` tables at a time, each on a thread. A
        table that is slow, or whose `apply` raises, does not hold back the others. The report has its error, under
        `failed`.
        """
        # Not the loop's own threads, which are few: each call may wait for another.
        threads = ThreadPoolExecutor(max(1, whole_number("concurrency", concurrency)), "cordwood-apply")

        async def apply_there(table: int, entries: TableEntries) -> None:
            await on_a_thread(threads, apply, table, entries)

        try:
            return self._portal.call(self._region.recover, apply_there, tables, concurrency)
        finally:
            threads.shutdown(wait=False)

    def tables(self) -> dict[int, TableMeta]:
        """The numbers and the offsets of each table that was written. No I/O."""
        return self._portal.call(self._tables)

    def mark_deleted(self, table: int, *, through: int, timeout: float | None = None) -> None:
        """Mark the entries of a table up to this number, and including it, as deleted.

        The mark is durable on return: no read returns them again, and cleaning frees their space. At or below an
        earlier mark, and for a table that is dropped or was never written, it has no effect. Beyond the table's last
        entry it raises `InvalidInput`.

        ```python
        region.mark_deleted(42, through=2)
        ```
        """
        self._portal.call(self._region.mark_deleted, table, through=through, timeout=timeout)

    def drop_table(self, table: int, *, timeout: float | None = None) -> None:
        """Delete all entries of a table that were written before the call, and the table; durable on return.

        Its numbers are never reused: a later write creates the table again, and continues after them. For a table that
        is dropped or was never written it has no effect.
        """
        self._portal.call(self._region.drop_table, table, timeout=timeout)

    def snapshot(self, *, timeout: float | None = None) -> None:
        """Write the state of the tables, so that the next open reads only the records after it.

        The region also makes one by itself: every 64 MiB, 10,000 writes or 10,000 marks (more if there are more
        tables), on a drop and on close; so does the cleaner.
        """
        self._portal.call(self._region.snapshot, timeout=timeout)

    def clean(self, *, timeout: float | None = None) -> None:
        """Trim the records that no table needs any more, after a snapshot that confirms it.

        It trims up to the oldest live entry of any table. The background also cleans, see `cw.wal`.
        """
        self._portal.call(self._region.clean, timeout=timeout)

    def stats(self) -> RegionStats:
        """The size of the region, and the tables that hold it back. No I/O."""
        return self._portal.call(self._stats)

    def close(self) -> None:
        """Finish the writes under way, leave a snapshot, and close; a second call has no effect.

        The region is closed for every user of this object.
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

    # On the loop, which owns the state of a region.

    async def _replay(self) -> wal.RegionReader:
        return self._region.replay()

    async def _read(self, table: int, start: int, stop: int | None) -> wal.RegionReader:
        return self._region.read(table, start, stop)

    async def _tables(self) -> dict[int, TableMeta]:
        return self._region.tables()

    async def _stats(self) -> RegionStats:
        return self._region.stats()


class RegionReader:
    """The entries of a region, in the order of their writes: an iterator, and a context manager.

    ```python
    with region.replay() as reader:
        for entries in reader:
            print(entries.table, entries.sequences, list(entries.payloads))
    ```
    It may be iterated without `with`; then it closes at its end, with the connection, or when it is garbage-collected.
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
        """Stop reading; a second call has no effect. A `next` that waits in another thread raises StopIteration."""
        self._crossing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


OnFlushNeeded: TypeAlias = Callable[[Region, list[int]], None]


def ask_on_a_thread(ask: OnFlushNeeded, through: Portal) -> wal.OnFlushNeeded:
    """Call `ask` on a thread: the loop continues meanwhile, since `ask` uses the region from its thread."""
    # Python joins this pool at the end of the program, while the loop still runs: no flush is cut off half-way.
    threads = ThreadPoolExecutor(_FLUSHES_MAX, "cordwood-flush")

    async def ask_there(region: wal.Region, tables: list[int]) -> None:
        await on_a_thread(threads, ask, Region(region, through), tables)

    return ask_there

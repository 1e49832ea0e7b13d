"""The blocking twin of the write-ahead log, with real threads."""

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import cordwood
from cordwood import Fenced, NotFound, TableEntries, Unavailable
from cordwood.log.calls.threads import in_a_thread


def test_a_program_without_a_loop_writes_and_reads_a_region(url: str) -> None:
    with cordwood.sync.connect(url) as cw:
        with cw.wal("metrics") as wal, wal.region(7) as region:
            assert (wal.name, region.id) == ("metrics", 7)
            assert region.write(42, [b"a", b"b"]) == range(1, 3)
            assert region.write_many({42: [b"c"], 43: [b"d"]}) == {42: range(3, 4), 43: range(1, 2)}
            assert [(entries.table, entries.sequences) for entries in region.replay()] == [
                (42, range(1, 3)),
                (42, range(3, 4)),
                (43, range(1, 2)),
            ]
            with region.read(42, 2, 3) as reader:
                assert [list(entries.payloads) for entries in reader] == [[b"b"]]
            assert region.tables()[42].next_sequence == 4
            assert wal.regions() == [7]
        with pytest.raises(Unavailable):
            region.write(42, [b"x"])
        with pytest.raises(NotFound):
            cw.wal("metrics").region(8, create=False)


def test_a_region_is_recovered_by_blocking_functions(url: str) -> None:
    with cordwood.sync.connect(url) as cw, cw.wal("metrics").region(7) as region:
        region.write_many({table: [b"a", b"b"] for table in range(5)})
        applied: dict[int, list[bytes | None]] = {}

        def apply(table: int, entries: TableEntries) -> None:
            if table == 3:
                raise OSError("no memory")
            applied[table] = list(entries.payloads)

        report = region.recover(apply, concurrency=2)
        assert applied == {table: [b"a", b"b"] for table in (0, 1, 2, 4)}
        assert (report.applied, [*report.failed]) == (8, [3])


@pytest.mark.parametrize("raised", [StopIteration, SystemExit, KeyboardInterrupt])
def test_an_error_of_a_blocking_function_ends_its_table_alone(url: str, raised: type[BaseException]) -> None:
    with cordwood.sync.connect(url) as cw, cw.wal("metrics").region(7) as region:
        region.write_many({table: [b"a", b"b"] for table in range(3)})

        def apply(table: int, entries: TableEntries) -> None:
            if table == 1:
                raise raised("of its own")

        report = in_a_thread("recovering", lambda: region.recover(apply)).result(30)
        assert (report.applied, [*report.failed]) == (4, [1])
        assert str(report.failed[1]) == f"apply raised {raised('of its own')!r}"
        assert isinstance(report.failed[1].__cause__, raised)
        assert region.write(1, [b"c"]) == range(3, 4)


def test_as_many_tables_are_recovered_at_a_time_as_was_asked_for(url: str) -> None:
    tables = 40  # more than a loop has threads of its own
    together = threading.Barrier(tables)
    with cordwood.sync.connect(url) as cw, cw.wal("metrics").region(7) as region:
        region.write_many({table: [b"a"] for table in range(tables)})

        def apply(table: int, entries: TableEntries) -> None:
            together.wait(30)

        report = region.recover(apply, concurrency=tables)
        assert (report.applied, report.failed) == (tables, {})


def test_apply_sees_the_context_variables_of_its_caller(url: str) -> None:
    request = contextvars.ContextVar("request", default="none")
    seen: list[str] = []
    with cordwood.sync.connect(url) as cw, cw.wal("metrics").region(7) as region:
        region.write(42, [b"a"])
        request.set("mine")
        region.recover(lambda table, entries: seen.append(request.get()))
    assert seen == ["mine"]


def test_threads_share_a_region(url: str) -> None:
    with cordwood.sync.connect(url) as cw, cw.wal("metrics").region(7) as region:
        with ThreadPoolExecutor(8) as threads:
            done = list(threads.map(lambda n: region.write(n % 5, [b"%d" % n]), range(200)))
        assert len({(n % 5, numbers.start) for n, numbers in enumerate(done)}) == 200
        assert sum(len(entries) for entries in region.replay()) == 200


def test_an_owner_that_was_fenced_is_told(url: str) -> None:
    with cordwood.sync.connect(url) as cw:
        old, new = cw.wal("metrics").region(7), cw.wal("metrics").region(7)
        with pytest.raises(Fenced, match="open it again to take it back"):
            old.write(42, [b"x"])
        assert new.write(42, [b"y"]) == range(1, 2)

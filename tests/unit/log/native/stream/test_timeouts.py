"""The error of an append whose time runs out: in the queue, in flight, and before the log is open."""

import pytest

from cordwood.errors import Timeout
from cordwood.simulation.file import SimulatedFile
from tests.support.folder.one_log import NEVER, Caller, OneLog, during_next_sync


@pytest.fixture
def one() -> OneLog:
    return OneLog()


def test_a_timeout_in_the_queue_is_not_written_and_in_flight_unknown(
    one: OneLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[Caller] = []

    def wait_too_long() -> None:
        queued.append(one.submit(b"queued", deadline=one.clock.now + 5))
        queued.append(one.submit(b"patient", deadline=one.clock.now + 11))
        one.clock.advance(10)
        one.folder.engine.expire()

    flying = one.submit(b"in flight", deadline=one.clock.now + 5)
    flying_longer = one.submit(b"in flight too", deadline=NEVER)
    during_next_sync(monkeypatch, wait_too_long)
    one.run()
    assert isinstance(flying.error, Timeout)
    assert isinstance(queued[0].error, Timeout)
    assert (flying.error.outcome, queued[0].error.outcome) == ("unknown", "not_written")
    assert (flying_longer.offsets, queued[1].offsets) == (range(2, 3), range(3, 4))
    assert one.values() == [b"first", b"in flight", b"in flight too", b"patient"]


def test_time_that_runs_out_while_a_switch_is_being_recorded_means_unknown() -> None:
    one = OneLog(used=False)
    caller = one.submit(b"synced", deadline=one.clock.now + 5)
    # The job that opens the log, then its turn; that of the metadata waits.
    one.folder.workers.run_one()
    one.folder.workers.run_one()
    assert one.folder.workers.waiting == 1
    one.clock.advance(10)
    one.folder.engine.expire()
    assert isinstance(caller.error, Timeout)
    assert caller.error.outcome == "unknown"
    one.run()
    assert one.values() == [b"synced"]


def test_time_that_runs_out_before_the_log_is_open_means_not_written() -> None:
    one = OneLog(used=False)
    late = one.submit(b"late", deadline=one.clock.now + 5)
    patient = one.submit(b"patient", deadline=one.clock.now + 50)
    one.clock.advance(10)
    one.folder.engine.expire()
    assert isinstance(late.error, Timeout)
    assert late.error.outcome == "not_written"
    one.run()
    assert (patient.offsets, one.values()) == (range(1), [b"patient"])


def test_a_log_that_opens_slowly_is_opened_once_for_all_callers() -> None:
    one = OneLog(used=False)
    for _ in range(3):
        one.submit(b"late", deadline=one.clock.now + 5)
        one.clock.advance(10)
        one.folder.engine.expire()
    assert one.folder.workers.waiting == 1
    caller = one.submit(b"in time")
    one.run()
    assert (caller.offsets, one.values()) == (range(1), [b"in time"])


def test_a_log_that_could_not_be_opened_is_opened_anew_for_the_next_append() -> None:
    used = OneLog()
    killed = used.folder.killed()
    killed.open()
    killed.run()
    one = OneLog.of(killed)
    killed.disk.fail("read", name_contains="plogs/")
    failed = one.submit(b"refused")
    one.run()
    assert failed.error.outcome == "not_written"
    caller = one.submit(b"next")
    one.run()
    assert (caller.offsets, one.values()) == (range(1, 2), [b"first", b"next"])


def test_a_log_whose_open_had_no_memory_opens_for_the_next_append(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = OneLog().folder.killed()
    killed.open()
    killed.run()
    one = OneLog.of(killed)

    def no_memory(file: SimulatedFile, size: int, position: int) -> memoryview:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedFile, "read", no_memory)
        failed = one.submit(b"refused")
        one.run()
    assert failed.error.outcome == "not_written"
    caller = one.submit(b"next")
    one.run()
    assert (caller.offsets, one.values()) == (range(1, 2), [b"first", b"next"])


def test_time_that_has_not_run_out_changes_nothing(one: OneLog) -> None:
    caller = one.submit(b"x", deadline=one.clock.now + 5)
    one.clock.advance(4)
    one.folder.engine.expire()
    one.run()
    assert caller.answers == [range(1, 2)]


def test_time_that_runs_out_while_the_topic_is_being_deleted_is_told() -> None:
    one = OneLog(used=False)
    caller = one.submit(b"synced", deadline=one.clock.now + 5)
    one.folder.workers.run_one()
    one.folder.workers.run_one()
    # Its rollover is not recorded, and cannot be now.
    one.folder.disk.capacity = one.folder.disk.used
    one.run()
    one.folder.engine.delete_topic("a", lambda: None)
    one.run()
    assert caller.answers == []
    one.clock.advance(10)
    one.folder.engine.expire()
    assert isinstance(caller.error, Timeout)
    assert caller.error.outcome == "unknown"

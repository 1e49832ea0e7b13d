"""Appends that wait while a sync runs share the next one; who gives up, is late or expects too much, does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import Conflict
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.log.native.stream import stream as stream_module
from cordwood.log.native.stream.append import LARGE_BYTES
from cordwood.log.native.stream.write_queue import QUEUE_BYTES_MAX
from cordwood.records import frame_of
from cordwood.simulation.folder import TINY
from tests.support.folder.one_log import Caller, OneLog, during_next_sync


@pytest.fixture
def one() -> OneLog:
    return OneLog()


def test_appends_that_wait_while_a_sync_runs_share_one_sync_and_one_frame(
    one: OneLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Caller] = []
    during_next_sync(monkeypatch, lambda: waiting.extend(one.submit(b"%d" % n, b"%d again" % n) for n in range(100)))
    frames, syncs = len(one.frames()), one.syncs()
    running = one.submit(b"running")
    one.run()
    assert running.offsets == range(1, 2)
    assert [caller.offsets for caller in waiting] == [range(2 + 2 * n, 4 + 2 * n) for n in range(100)]
    assert one.syncs() == syncs + 2
    assert [frame.offsets for frame in one.frames()[frames:]] == [range(1, 2), range(2, 202)]
    assert one.values()[2:6] == [b"0", b"0 again", b"1", b"1 again"]


def test_an_append_that_comes_alone_does_not_wait_for_company(one: OneLog) -> None:
    syncs = one.syncs()
    for number in range(5):
        one.submit(b"%d" % number)
        one.run()
    assert one.syncs() == syncs + 5
    assert len(one.frames()) == 6


def test_appends_before_the_log_was_opened_are_a_group_too() -> None:
    one = OneLog(used=False)
    callers = [one.submit(b"%d" % number) for number in range(50)]
    one.run()
    assert [caller.offsets.start for caller in callers] == [*range(50)]
    assert [frame.offsets for frame in one.frames()] == [range(50)]
    # One to reserve its space, one for the group.
    assert one.syncs() == 2


def test_large_appends_get_frames_of_their_own_and_share_the_sync(one: OneLog) -> None:
    syncs = one.syncs()
    for value in (b"a", b"b", bytes(LARGE_BYTES), bytes(LARGE_BYTES), b"c"):
        one.submit(value)
    one.run()
    # A small one that follows may share the frame of a large one: that copies nothing twice.
    assert [frame.offsets for frame in one.frames()[1:]] == [range(1, 3), range(3, 4), range(4, 6)]
    assert one.syncs() == syncs + 1


def test_appends_over_one_frame_share_the_sync_and_few_frames(
    one: OneLog,
) -> None:
    # A plog that takes all of it.
    one.submit(bytes(1_500_000))
    one.run()
    frames, syncs = len(one.frames()), one.syncs()
    for _ in range(24):
        one.submit(bytes(100_000))
    one.run()
    assert [len(frame) for frame in one.frames()[frames:]] == [20, 4]
    assert one.syncs() == syncs + 1


def test_a_group_that_goes_over_many_plogs_is_acked_in_order_without_holes() -> None:
    one = OneLog(TINY)
    callers = [one.submit(b"%d" % number, bytes(LARGE_BYTES)) for number in range(8)]
    one.run()
    assert [caller.offsets for caller in callers] == [range(1 + 2 * n, 3 + 2 * n) for n in range(8)]
    assert len(one.log.extent().chain) == 9
    assert one.values()[1::2] == [b"%d" % number for number in range(8)]


# -- who gives up --------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_a_cancelled_append_in_the_queue_is_not_written(cancelled: list[bool]) -> None:
    one = OneLog()
    callers = [one.submit(b"%d" % number) for number in range(len(cancelled))]
    for caller, gave_up in zip(callers, cancelled, strict=True):
        caller.gave_up = gave_up
    one.run()
    kept = [number for number, gave_up in enumerate(cancelled) if not gave_up]
    assert one.values() == [b"first", *(b"%d" % number for number in kept)]
    assert [callers[number].offsets.start for number in kept] == [*range(1, len(kept) + 1)]
    assert all(not caller.answers for caller in callers if caller.gave_up)


def test_an_append_that_is_cancelled_while_it_is_written_stays_written(
    one: OneLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = one.submit(b"too late")
    during_next_sync(monkeypatch, lambda: setattr(caller, "gave_up", True))
    one.run()
    assert one.values() == [b"first", b"too late"]


# -- who expects an offset -----------------------------------------------------------------------------------------


def test_a_group_keeps_right_expectations_and_refuses_wrong_ones(one: OneLog) -> None:
    right = one.submit(b"a", b"b", expected=1)
    late = one.submit(b"c", expected=1)
    easy = one.submit(b"d")
    ahead = one.submit(b"e", expected=9)
    right_too = one.submit(b"f", expected=4)
    one.run()
    assert [caller.offsets for caller in (right, easy, right_too)] == [range(1, 3), range(3, 4), range(4, 5)]
    for caller, actual in ((late, 3), (ahead, 4)):
        assert isinstance(caller.error, Conflict)
        assert (caller.error.actual, caller.error.outcome) == (actual, "not_written")
    assert one.values() == [b"first", b"a", b"b", b"d", b"f"]
    assert [frame.offsets for frame in one.frames()] == [range(1), range(1, 5)]


@given(st.lists(st.tuples(st.integers(1, 3), st.none() | st.integers(0, 8)), min_size=1, max_size=10))
def test_an_expectation_is_held_against_all_that_came_before_in_its_group(
    appends: list[tuple[int, int | None]],
) -> None:
    one = OneLog()
    callers = [one.submit(*[b"x"] * count, expected=expected) for count, expected in appends]
    one.run()
    end = 1
    for (count, expected), caller in zip(appends, callers, strict=True):
        if expected is None or expected == end:
            assert caller.offsets == range(end, end + count)
            end += count
        else:
            assert isinstance(caller.error, Conflict)
            assert caller.error.actual == end
    assert len(one.values()) == end


def test_a_group_in_which_nobody_is_right_writes_nothing(one: OneLog) -> None:
    before = one.folder.disk.operations
    callers = [one.submit(b"x", expected=7), one.submit(b"y", expected=0)]
    one.run()
    assert [[type(answer) for answer in caller.answers] for caller in callers] == [[Conflict], [Conflict]]
    assert one.folder.disk.operations == before


# -- who finds no room in the queue --------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [True, False], ids=["an open log", "a log that is being opened"])
def test_a_full_queue_takes_nothing_and_says_when_there_is_room(used: bool) -> None:
    one = OneLog(used=used)
    two_mebibytes = bytes(2 * 1024 * 1024 - 1000)
    queued: list[Caller] = []
    while (caller := one.try_submit(two_mebibytes)) is not None:
        caller.gave_up = True
        queued.append(caller)
    assert len(queued) == QUEUE_BYTES_MAX // len(two_mebibytes)
    told: list[Caller | None] = []
    one.log.when_room(lambda: told.append(one.try_submit(b"at last")))
    assert told == []
    one.run()
    assert len(told) == 1
    if told[0] is None:
        # The job that opened the log found the same queue there; now it is empty.
        one.log.when_room(lambda: told.append(one.try_submit(b"at last")))
        one.run()
    assert told[-1] is not None
    assert told[-1].answers
    assert one.values()[-1:] == [b"at last"]
    # And as much as before.
    assert all(one.try_submit(two_mebibytes) for _ in queued)
    assert one.try_submit(two_mebibytes) is None


def test_an_empty_queue_has_room_at_once_for_an_append_of_any_size(one: OneLog) -> None:
    told: list[bool] = []
    one.log.when_room(lambda: told.append(True))
    assert told == [True]


def test_a_small_plog_for_many_is_no_reason_to_refuse_a_group() -> None:
    one = OneLog(FolderSettings(plog_bytes_max=1, metadata_plog_bytes_min=1))
    callers = [one.submit(b"%d" % number) for number in range(10)]
    one.run()
    assert [caller.offsets.start for caller in callers] == [*range(1, 11)]


def test_a_log_continues_after_a_trim_to_its_end_and_a_broken_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = OneLog(FolderSettings(plog_bytes_max=1 << 22))
    frames_made: list[int] = []

    def no_memory(*args: Any, **options: Any) -> Any:
        frames_made.append(1)
        if len(frames_made) == 2:
            raise MemoryError
        return frame_of(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(stream_module, "frame_of", no_memory)
        callers = [one.submit(bytes([number]) * LARGE_BYTES) for number in range(2)]
        one.run()
    assert [caller.error.outcome for caller in callers] == ["unknown", "unknown"]
    one.log.trim(1, lambda: None)
    one.run()
    caller = one.submit(b"next")
    one.run()
    assert (caller.offsets, one.values()) == (range(1, 2), [b"next"])

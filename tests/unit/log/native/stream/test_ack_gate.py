"""Acks leave in offset order, whatever completes first."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.plog import PlogId
from cordwood.log.native.stream.ack_gate import AckGate, Synced
from cordwood.log.native.stream.append import Append
from cordwood.records import Batch


class Caller:
    def cancelled(self) -> bool:
        return False


def group(number: int, rollover: int) -> Synced:
    """The group of the offset `number`, in the plog that the rollover brought."""
    append = Append(Batch.of([b"x"]), 1, Caller(), lambda appends: None, float("inf"))
    append.result = range(number, number + 1)
    return Synced(rollover, Durable(PlogId("local", "0", rollover + 1), 100, number + 1), [append])


@st.composite
def interleavings(draw: st.DrawFn) -> list[Synced | int]:
    """Syncs in offset order and recordings (numbers) in the order of their rollovers, in any mixture of the two.

    A rollover is recorded at any time after the log continued in its plog, also before anything is synced there; and
    one recording may be for several.
    """
    syncs: list[Synced] = []
    rollover = 0
    for number in range(draw(st.integers(1, 20))):
        rollover += draw(st.sampled_from([0, 0, 1, 2]))
        syncs.append(group(number, rollover))
    recordings = draw(st.lists(st.integers(1, max(1, rollover)), max_size=6).map(sorted))
    events: list[Synced | int] = []
    while syncs or recordings:
        from_syncs = bool(syncs) and (not recordings or draw(st.booleans()))
        events.append(syncs.pop(0) if from_syncs else recordings.pop(0))
    return events


@given(interleavings())
def test_acks_leave_in_offset_order_and_as_soon_as_they_may(
    events: list[Synced | int],
) -> None:
    gate = AckGate()
    synced: list[Synced] = []
    acked: list[Synced] = []
    recorded = 0
    for event in events:
        if isinstance(event, int):
            recorded = event
            acked += gate.open_through(event)
        else:
            synced.append(event)
            acked += gate.hold(event)
        # Rollovers never go down in offset order: acks that may leave are always a beginning of the synced ones.
        assert acked == [x for x in synced if x.rollover <= recorded]
        assert gate.waiting() == [append for x in synced[len(acked) :] for append in x.appends]
    acked += gate.open_through(1_000)
    assert acked == synced
    assert gate.waiting() == []


def test_what_stands_in_the_first_plog_of_an_open_waits_for_its_switch_too() -> None:
    gate = AckGate()
    first, second = group(0, 1), group(1, 1)
    assert gate.hold(first) == []
    assert gate.hold(second) == []
    assert gate.open_through(1) == [first, second]


def test_a_recording_that_comes_late_takes_nothing_back() -> None:
    gate = AckGate()
    assert gate.open_through(3) == []
    assert gate.open_through(2) == []
    third = group(0, 3)
    assert gate.hold(third) == [third]

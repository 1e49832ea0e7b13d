"""Where a plog ends that nobody closed, frame by frame; tests/crash has what whole histories leave."""

import pytest

from cordwood.errors import Corrupt
from cordwood.log.native.plog import Plog, PlogId, PlogStore, Tail, find_tail, make_durable
from cordwood.records import Batch, encode_frame
from cordwood.simulation.disk import SimulatedDisk

ID = PlogId("local", "0", 255)
FILE = f"plogs/{ID.file_name}"
SIZE = 4096


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    PlogStore(disk).prepare()
    return disk


@pytest.fixture
def plog(disk: SimulatedDisk) -> Plog:
    return PlogStore(disk).create(ID, SIZE)


def frame(value: bytes, first_offset: int, *, position: int, synced_end: int, timestamp: int = 0, of: PlogId) -> bytes:
    """A frame of one record."""
    return encode_frame(
        [Batch.of([value], timestamps=[timestamp])],
        plog=of.random,
        position=position,
        first_offset=first_offset,
        epoch=1,
        synced_end=synced_end,
        now_ms=0,
    )


def put(plog: Plog, value: bytes, first_offset: int, timestamp: int = 0, *, of: PlogId = ID) -> int:
    """Append a frame of one record; returns where it ends."""
    data = frame(value, first_offset, position=plog.end, synced_end=plog.synced_end, timestamp=timestamp, of=of)
    plog.append([(0, [data], len(data))], len(data), plog.end)
    return plog.end


def test_an_empty_plog_ends_where_it_begins(plog: Plog, disk: SimulatedDisk) -> None:
    assert find_tail(disk.open(FILE), ID, next_offset=40) == Tail(0, 40, -1, 0, 40)


def test_the_tail_is_after_the_last_whole_frame_with_the_highest_time(plog: Plog, disk: SimulatedDisk) -> None:
    first = put(plog, b"a", 40, timestamp=9)
    plog.sync()
    second = put(plog, b"b", 41, timestamp=5)
    assert find_tail(disk.open(FILE), ID, next_offset=40) == Tail(second, 42, 9, first, 41)


def test_a_walk_may_begin_at_any_boundary_that_is_known_to_be_synced(plog: Plog, disk: SimulatedDisk) -> None:
    first = put(plog, b"a", 40)
    plog.sync()
    second = put(plog, b"b", 41)
    # The walk does not look at earlier bytes.
    disk.flip_bit(FILE, 8 * 100)
    assert find_tail(disk.open(FILE), ID, start=first, next_offset=41, max_timestamp=3) == Tail(
        second, 42, 3, first, 41
    )


@pytest.mark.parametrize("bit", range(0, 8 * 96, 37))
def test_a_torn_frame_above_the_synced_end_is_cut_with_all_that_follows(
    plog: Plog, disk: SimulatedDisk, bit: int
) -> None:
    first = put(plog, b"a", 0)
    plog.sync()
    put(plog, b"b", 1)
    put(plog, b"c", 2)
    disk.flip_bit(FILE, 8 * first + bit)
    assert find_tail(disk.open(FILE), ID, next_offset=0)[:2] == (first, 1)


def test_damage_below_the_synced_end_of_a_later_frame_names_its_place(plog: Plog, disk: SimulatedDisk) -> None:
    first = put(plog, b"a", 0)
    second = put(plog, b"b", 1)
    plog.sync()
    put(plog, b"c", 2)
    disk.flip_bit(FILE, 8 * first + 300)
    with pytest.raises(Corrupt, match=f"damaged at byte {first}: up to byte {second} it was synced"):
        find_tail(disk.open(FILE), ID, next_offset=0)


def test_damage_below_a_synced_end_that_the_caller_vouches_for_is_said_too(plog: Plog, disk: SimulatedDisk) -> None:
    put(plog, b"a", 0)
    second = put(plog, b"b", 1)
    disk.flip_bit(FILE, 8 * second - 1)
    with pytest.raises(Corrupt, match=f"up to byte {second}"):
        find_tail(disk.open(FILE), ID, next_offset=0, synced_end=second)


def test_a_synced_end_inside_a_frame_is_damage(plog: Plog, disk: SimulatedDisk) -> None:
    put(plog, b"a", 0)
    with pytest.raises(Corrupt):
        find_tail(disk.open(FILE), ID, next_offset=0, synced_end=8)


def test_a_file_that_was_cut_below_its_synced_end_is_damage(plog: Plog, disk: SimulatedDisk) -> None:
    first = put(plog, b"a", 0)
    disk.open(FILE, write=True).truncate(first - 1)
    with pytest.raises(Corrupt, match="damaged at byte 0"):
        find_tail(disk.open(FILE), ID, next_offset=0, synced_end=first)


def test_a_frame_of_another_plog_place_or_offset_does_not_belong_to_it(plog: Plog, disk: SimulatedDisk) -> None:
    first = put(plog, b"a", 0)
    put(plog, b"b", 1, of=PlogId("local", "0", 254))
    assert find_tail(disk.open(FILE), ID, next_offset=0).end == first
    file = disk.open(FILE, write=True)
    file.write([frame(b"b", 1, position=first + 8, synced_end=0, of=ID)], first)
    assert find_tail(file, ID, next_offset=0).end == first
    assert find_tail(file, ID, next_offset=7).end == 0


def test_a_frame_inside_a_value_vouches_for_nothing(plog: Plog, disk: SimulatedDisk) -> None:
    first = put(plog, b"a", 0)
    plog.sync()
    end = put(plog, frame(b"stored", 0, position=0, synced_end=3000, of=ID), 1)
    disk.flip_bit(FILE, 8 * first + 1)
    assert end > first
    assert find_tail(disk.open(FILE), ID, next_offset=0).end == first


def test_a_tail_is_durable_once_it_was_made_so(plog: Plog, disk: SimulatedDisk) -> None:
    put(plog, b"a", 0)
    plog.sync()
    end = put(plog, b"b", 1)
    # The kernel takes the pages of a failed sync for written.
    disk.fail("sync")
    with pytest.raises(OSError):
        plog.sync()
    file = disk.open(FILE, write=True)
    make_durable(file, find_tail(file, ID, next_offset=0))
    assert find_tail(disk.power_cut("none").open(FILE), ID, next_offset=0).end == end

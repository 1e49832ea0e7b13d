"""Bits flip on the disk: a read returns the right data, or raises `Corrupt` with the place; never anything else."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from random import Random

import pytest

from cordwood.errors import Corrupt
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.log.native.stream.reading.cursor import LogCursor, offset_at
from cordwood.log.topics import TopicConfig
from cordwood.records import Batch, decode_header, encode_frame
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.power import PowerCut

PLACE = re.compile(r"plog local/0/[0-9a-f]{16} is damaged at byte \d+")


def small(*, closed: bool) -> SimulatedFolder:
    """A few records in two plogs, the second one open unless `closed`, and a start that is not 0."""
    folder = SimulatedFolder(3, settings=FolderSettings(plog_bytes_max=600, metadata_plog_bytes_min=600))
    folder.open()
    folder.create_topic("a")
    for _ in range(3):
        folder.put("a", 2, 30)
        folder.run()
        folder.put("a", 1, 5)
        folder.run()
    folder.trim("a", 1)
    folder.run()
    if closed:
        folder.close()
    return folder


def plogs(folder: SimulatedFolder) -> list[str]:
    return [name for name in folder.disk.names() if name.startswith("plogs/")]


def bits(folder: SimulatedFolder, name: str) -> range:
    return range(8 * len(folder.disk.contents(name)))


def written_bits(folder: SimulatedFolder, name: str) -> range:
    """Those of all written bytes, and some of the zeros after them."""
    return range(8 * (len(folder.disk.contents(name).rstrip(b"\0")) + 16))[: len(bits(folder, name))]


def opened_and_read(folder: SimulatedFolder) -> None:
    folder.open()
    folder.check()


def viewed(folder: SimulatedFolder) -> None:
    folder.check_view()


def is_right(use: Callable[[SimulatedFolder], object], folder: SimulatedFolder) -> bool:
    """Whether all is there; else the read must raise, with the place."""
    try:
        use(folder)
    except Corrupt as error:
        check_place(error)
        return False
    return True


def check_place(error: Corrupt) -> None:
    if not PLACE.search(str(error)):
        raise AssertionError("the place is not named") from error


@pytest.mark.parametrize(("closed", "step"), [(True, 1), (False, 3)], ids=["closed", "killed"])
def test_every_bit_of_every_plog(closed: bool, step: int) -> None:
    # As it is on the disk: nothing waits for a sync.
    folder = small(closed=closed).power_cut("all")
    assert len(plogs(folder)) >= 3
    for name in plogs(folder):
        rights = set()
        for bit in written_bits(folder, name)[::step]:
            damaged = folder.killed()
            damaged.disk.flip_bit(name, bit)
            if bit % 7 == 0:
                is_right(viewed, damaged)
            rights.add(is_right(opened_and_read, damaged))
        # Of each plog some bits matter, unless it is the spare.
        assert False in rights or not folder.disk.contents(name).strip(b"\0")


def test_sampled_bits_of_a_larger_log() -> None:
    folder = SimulatedFolder(4)
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b")
    for step in range(60):
        folder.put("a", 3, 100)
        folder.put("b", 1, 700)
        if step % 2:
            folder.run()
    folder.run()
    folder = folder.power_cut("all")
    random = Random("sampled bits")
    for _ in range(400):
        name = random.choice(plogs(folder))
        damaged = folder.killed()
        damaged.disk.flip_bit(name, random.choice(bits(folder, name)))
        is_right(opened_and_read, damaged)


def test_a_damaged_header_hides_no_record_from_a_read_after_it() -> None:
    folder = small(closed=True).power_cut("all")
    records = 9
    for name in plogs(folder):
        for bit in bits(folder, name)[: 8 * 300 : 5]:
            damaged = folder.killed()
            damaged.disk.flip_bit(name, bit)
            try:
                damaged.open()
                for start in range(1, records):
                    cursor = LogCursor(damaged.log("a"), start)
                    found = [offset for batch in cursor.read(None) for offset in batch.offsets]
                    cursor.close()
                    assert found[0] == start
                    assert found == list(range(start, start + len(found)))
            except Corrupt as error:
                check_place(error)


def test_a_damaged_header_gives_no_wrong_offset_for_a_time() -> None:
    folder = SimulatedFolder(settings=FolderSettings(plog_bytes_max=600))
    folder.open()
    folder.create_topic("a")
    times = []
    for _ in range(5):
        folder.clock.advance(10)
        times.append(folder.clock.time_ms())
        folder.put("a", 1, 30)
        folder.run()
    folder.close()
    folder = folder.power_cut("all")
    for name in plogs(folder):
        for bit in bits(folder, name)[: 8 * 300 : 5]:
            damaged = folder.killed()
            damaged.disk.flip_bit(name, bit)
            try:
                damaged.open()
                assert [offset_at(damaged.log("a"), time) for time in times] == list(range(5))
            except Corrupt as error:
                check_place(error)


def four_batches() -> SimulatedFolder:
    """Two records each, in one plog.

    The third has frames as a value: all of that plog before it, and one of another plog that names its place.
    """
    folder = SimulatedFolder(settings=FolderSettings())
    folder.open()
    folder.create_topic("a")
    for number in range(4):
        value = b"%d" % number
        if number == 2:
            name, places = open_plog(folder)
            value = folder.disk.contents(name)[: 2 * places[1]]
            # Behind the header of the third, three offsets in 16 bytes, and the copy.
            place = {"position": 2 * places[1] + 96 + 16 + len(value), "first_offset": 5}
            value += encode_frame([Batch.of([b"x"])], plog=7, **place, epoch=1, synced_end=0, now_ms=0)
        folder.append("a", value, b"and %d" % number)
        folder.run()
    return folder


def values_from(folder: SimulatedFolder, start: int, stop: int | None = None) -> list[bytes | None]:
    cursor = LogCursor(folder.log("a"), start)
    values = []
    try:
        while batches := cursor.read(stop):
            values += [value for batch in batches for value in batch.values]
    finally:
        cursor.close()
    return values


@pytest.mark.parametrize(("chunk", "step"), [(104, 11), (256 * 1024, 1)])
def test_a_damaged_header_costs_its_own_batch_alone(monkeypatch: pytest.MonkeyPatch, chunk: int, step: int) -> None:
    monkeypatch.setattr("cordwood.log.native.stream.reading.blocks._FIND_BYTES", chunk)
    folder = four_batches()
    name, found = open_plog(folder)
    headers = [decode_header(folder.disk.contents(name), place) for place in found]
    assert [header.first_offset for header in headers] == [0, 2, 4, 0, 2, 5, 6]
    assert headers[5].position == found[5]
    frames = [*found[:3], found[6]]
    whole = values_from(folder, 0)
    for number, begin in enumerate(frames[:3]):
        lost = range(2 * number, 2 * number + 2)
        for bit in range(8 * begin, 8 * (begin + 96), step):
            folder.disk.flip_bit(name, bit)
            for start in range(8):
                if start >= lost.stop:
                    assert values_from(folder, start) == whole[start:]
                    continue
                with pytest.raises(Corrupt, match=rf"plog local/0/{name[6:22]} is damaged at byte {begin}: "):
                    values_from(folder, start)
                assert values_from(folder, start, lost.start) == whole[start : lost.start]
            folder.disk.flip_bit(name, bit)


def test_damaged_headers_in_a_row_cost_their_own_batches_alone() -> None:
    folder = one_plog(6)
    name, frames = open_plog(folder)
    for place in (frames[0], frames[2], frames[3]):
        folder.disk.flip_bit(name, 8 * (place + 32))
    for start, place in ((0, 0), (2, 2), (3, 2)):
        with pytest.raises(Corrupt, match=rf"is damaged at byte {frames[place]}: "):
            values_from(folder, start)
    assert len(values_from(folder, 1, 2)) == 1
    assert len(values_from(folder, 4)) == 2


def test_damage_without_a_whole_header_after_it_covers_all_that_follows() -> None:
    folder = one_plog(3)
    name, frames = open_plog(folder)
    for place in frames[1:]:
        folder.disk.flip_bit(name, 8 * (place + 32))
    with pytest.raises(Corrupt, match=rf"is damaged at byte {frames[1]}: "):
        values_from(folder, 2)


def test_a_search_by_time_stops_at_a_damaged_header_unless_it_is_trimmed() -> None:
    folder = SimulatedFolder(settings=FolderSettings())
    folder.open()
    folder.create_topic("a")
    times = []
    for _ in range(3):
        folder.clock.advance(10)
        times.append(folder.clock.time_ms())
        folder.put("a", 2)
        folder.run()
    name, frames = open_plog(folder)
    folder.disk.flip_bit(name, 8 * (frames[1] + 32))
    assert offset_at(folder.log("a"), times[0]) == 0
    for start in (0, 3):
        folder.trim("a", start)
        folder.run()
        # The batch that is lost may have been of that time: the records of a log are in no order of time.
        with pytest.raises(Corrupt, match=rf"is damaged at byte {frames[1]}: "):
            offset_at(folder.log("a"), times[2])
    folder.trim("a", 4)
    folder.run()
    assert offset_at(folder.log("a"), times[0]) == 4
    assert offset_at(folder.log("a"), times[2]) == 4


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_a_flip_in_published_files_delays_readers_and_costs_no_data(closed: bool) -> None:
    folder = small(closed=closed).power_cut("all")
    for bit in bits(folder, "published/ends")[:: 5 if closed else 2]:
        damaged = folder.killed()
        damaged.disk.flip_bit("published/ends", bit)
        shown = damaged.check_view()
        opened_and_read(damaged)
        damaged.check_shown(shown)
    for bit in bits(folder, "published/catalog")[::11]:
        damaged = folder.killed()
        damaged.disk.flip_bit("published/catalog", bit)
        with pytest.raises(Corrupt, match="published/catalog"):
            damaged.check_view()
        opened_and_read(damaged)
        # The open has made it anew.
        damaged.killed().check_view(all_acked=True)


def test_slots_that_move_after_damage_take_no_start_or_end_along() -> None:
    folder = SimulatedFolder()
    folder.open()
    for name in ("a", "b", "c"):
        folder.create_topic(name, TopicConfig(partitions=2))
        folder.put(name, 4, partition=1)
    folder.run()
    folder.trim("c", 3, partition=1)
    folder.delete_topic("a")
    folder.run()
    killed = folder.killed()
    killed.disk.flip_bit("published/catalog", 100)
    killed.open()
    killed.check(settle=True)
    again = killed.power_cut("none")
    assert again.check_view()["c/1"].start == 3
    again.open()
    again.check(settle=True)


def test_nothing_is_dropped_on_the_word_of_a_coordinator_that_is_behind() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.put("a", 3)
    folder.run()
    before = folder.coordinator.after_crash(folder.disk)
    folder.create_topic("b")
    folder.put("b", 3)
    folder.trim("a", 2)
    folder.run()
    damaged = folder.killed()
    there = damaged.disk.names()
    sound, damaged.coordinator = damaged.coordinator, before.after_crash(damaged.disk)
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"coordinator\.db has lost changes"):
            damaged.open()
        damaged.run()
        assert damaged.disk.names() == there
    damaged.check_view(all_acked=True)
    damaged.coordinator = sound
    damaged.open()
    damaged.check()


def without_published_ends(folder: SimulatedFolder) -> SimulatedFolder:
    """As after a power cut that took all of them: they are never synced."""
    killed = folder.killed()
    for place in range(0, len(killed.disk.contents("published/ends")), 128):
        killed.disk.flip_bit("published/ends", 8 * place)
    return killed


def open_plog(folder: SimulatedFolder) -> tuple[str, list[int]]:
    """The name of the log's open plog, and where its frames begin."""
    view = folder.log("a").extent()
    assert view.chain.last is not None
    name = f"plogs/{view.chain.last.id.file_name}"
    data = folder.disk.contents(name)
    return name, [match.start() for match in re.finditer(rb"CORD\x01", data)]


def one_plog(groups: int) -> SimulatedFolder:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    folder.create_topic("b")
    for _ in range(groups):
        folder.put("a", 1, 100)
        folder.run()
    return folder


def test_damage_below_the_synced_end_is_said_at_open_with_plog_and_byte() -> None:
    folder = one_plog(4)
    name, frames = open_plog(folder)
    for place in frames[:3]:
        damaged = without_published_ends(folder)
        damaged.disk.flip_bit(name, 8 * (place + 100))
        damaged.open()
        with pytest.raises(Corrupt, match=rf"plog local/0/{name[6:22]} is damaged at byte {place}: "):
            damaged.check()
        # The other log is not harmed.
        damaged.put("b")
        damaged.run()
        assert damaged.ledger("b").end_min == 1


def test_damage_below_the_synced_end_is_said_at_read_with_plog_and_byte() -> None:
    folder = one_plog(4)
    name, frames = open_plog(folder)
    for place in frames:
        damaged = folder.killed()
        damaged.disk.flip_bit(name, 8 * (place + 100))
        damaged.open()
        with pytest.raises(Corrupt, match=rf"plog local/0/{name[6:22]} is damaged at byte {place}: "):
            damaged.check()


def test_whatever_bit_flips_all_that_stands_before_its_frame_can_be_read() -> None:
    folder = one_plog(4)
    name, frames = open_plog(folder)
    for sound, (begin, end) in enumerate(pairwise([*frames, 4 * frames[1]])):
        for bit in range(8 * begin, 8 * end, 7):
            damaged = folder.killed()
            damaged.disk.flip_bit(name, bit)
            damaged.open()
            place = rf"plog local/0/{name[6:22]} is damaged at byte {begin}: "
            cursor = LogCursor(damaged.log("a"), 0)
            assert read_until(cursor, None, place) == list(range(sound))
            # Tried again, it is where it was.
            assert read_until(cursor, None, place) == []
            # Who asks for no more than that is not told.
            before = LogCursor(damaged.log("a"), 0)
            assert read_until(before, sound) == list(range(sound))
            cursor.close()
            before.close()


def read_until(cursor: LogCursor, stop: int | None, place: str | None = None) -> list[int]:
    """The offsets up to `stop`, or up to damage, which must be there, if a place is given."""
    offsets: list[int] = []
    with nullcontext() if place is None else pytest.raises(Corrupt, match=place):
        while batches := cursor.read(stop):
            offsets += [offset for batch in batches for offset in batch.offsets]
    return offsets


def test_the_documented_limit_a_flip_in_the_last_group_without_an_end() -> None:
    folder = one_plog(4)
    name, frames = open_plog(folder)
    damaged = without_published_ends(folder)
    damaged.disk.flip_bit(name, 8 * (frames[-1] + 100))
    damaged.open()
    assert damaged.log("a").extent().durable.next_offset == 3


def test_a_lost_metadata_record_below_a_published_end_or_seal_is_damage() -> None:
    for closed in (False, True):
        folder = one_plog(2)
        folder.put("b", 1, 10)
        folder.run()
        metadata = folder.coordinator.metadata_plog()
        assert metadata is not None
        name = f"plogs/{metadata.rpartition('/')[2]}.plog"
        if closed:
            folder.close()
        last = [match.start() for match in re.finditer(rb"CORD\x01", folder.disk.contents(name))][-1]
        damaged = without_published_ends(folder) if closed else folder.killed()
        damaged.disk.flip_bit(name, 8 * (last + 100))
        with pytest.raises(Corrupt, match=rf"is damaged at byte {last}"):
            damaged.open()


def test_a_damaged_tail_that_a_power_cut_left_is_cut_and_never_shown() -> None:
    folder = one_plog(2)
    folder.disk.crash_at(folder.disk.operations + 2)
    folder.put("a", 2, 400)
    with pytest.raises(PowerCut):
        folder.run()
    name, frames = open_plog_of(folder)
    for bit in range(8 * frames[-1], 8 * (frames[-1] + 900), 7):
        damaged = folder.killed()
        damaged.disk.flip_bit(name, bit)
        damaged.open()
        damaged.check(settle=True)


def open_plog_of(crashed: SimulatedFolder) -> tuple[str, list[int]]:
    killed = crashed.killed()
    killed.open()
    return open_plog(killed)

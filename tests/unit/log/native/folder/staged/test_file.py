"""One staged file: written records come back, in order and with their log; anything else is damage."""

import pytest

from cordwood.errors import Corrupt, TooLarge, Unavailable
from cordwood.log.native.folder.published import Owner
from cordwood.log.native.folder.staged.file import StagedFile, StagedWriter, staged_frames
from cordwood.log.native.folder.staged.leftovers import StagedName
from cordwood.records import FRAME_BYTES_MAX, Batch
from cordwood.simulation.clock import SimulatedClock
from cordwood.simulation.disk import SimulatedDisk

A, B = Owner(1, 0), Owner(2, 9_999)


def writer_on(disk: SimulatedDisk) -> StagedWriter:
    return StagedWriter(disk, SimulatedClock(), StagedName("one", "-", 0, "try", "0"))


def staged(disk: SimulatedDisk) -> StagedFile:
    writer = writer_on(disk)
    writer.add(A, "a/0", Batch.of([b"1", b"2"], keys=[b"k", None]))
    writer.add(B, "b/9999", Batch.of([None], headers=[[("h", None)]], timestamps=[5]))
    writer.add(A, "a/0", Batch.of([b"3"]))
    file = writer.finish()
    assert file is not None
    return file


def test_records_come_back_in_order_with_their_log() -> None:
    disk = SimulatedDisk()
    found = list(staged_frames(disk, staged(disk)))
    assert [(owner, batch.offsets, list(batch.values)) for owner, batch in found] == [
        (A, range(0, 2), [b"1", b"2"]),
        (B, range(0, 1), [None]),
        (A, range(2, 3), [b"3"]),
    ]
    assert list(found[0][1].keys) == [b"k", None]
    assert found[1][1].headers[0] == (("h", None),)
    assert found[1][1].timestamps[0] == 5
    # Without one of its own a record gets the time at which it was staged.
    assert found[2][1].timestamps[0] == SimulatedClock().time_ms()


def test_no_records_make_no_file() -> None:
    disk = SimulatedDisk()
    writer = writer_on(disk)
    assert writer.finish() is None
    writer.discard()
    assert (disk.names(), disk.operations) == ([], 0)


def test_a_large_batch_becomes_frames_that_fit_in_their_order() -> None:
    disk = SimulatedDisk()
    writer = writer_on(disk)
    values = [bytes([n % 256]) * size for n, size in enumerate([3000] * 2000 + [FRAME_BYTES_MAX - 500, 1, 2])]
    writer.add(A, "a/0", Batch.of(values))
    file = writer.finish()
    assert file is not None
    batches = [batch for _, batch in staged_frames(disk, file)]
    assert [value for batch in batches for value in batch.values] == values
    # Halves of halves: none is smaller than it has to be, but for the neighbours of a huge record.
    assert 4 <= len(batches) <= 20


def test_a_record_over_the_limit_is_refused_with_its_size_and_the_limit() -> None:
    writer = writer_on(SimulatedDisk())
    with pytest.raises(
        TooLarge, match=rf"a/0: a record is 2097256 bytes framed, the limit is {FRAME_BYTES_MAX}"
    ) as caught:
        writer.add(A, "a/0", Batch.of([b"small", bytes(FRAME_BYTES_MAX), b"small"]))
    assert caught.value.outcome == "not_written"


def test_a_file_is_durable_with_its_name_once_it_is_finished() -> None:
    disk = SimulatedDisk()
    file = staged(disk)
    assert len(list(staged_frames(disk.power_cut("none"), file))) == 3


def test_a_discarded_file_is_gone() -> None:
    disk = SimulatedDisk()
    writer = writer_on(disk)
    writer.add(A, "a/0", Batch.of([b"1"]))
    writer.discard()
    assert disk.names() == []


def test_a_full_disk_is_said_and_nothing_was_appended() -> None:
    disk = SimulatedDisk(capacity=1000)
    writer = writer_on(disk)
    with pytest.raises(
        Unavailable, match=r"staged/one\.-\.0\.try\.0\.frames.*No space left.*nothing was appended"
    ) as caught:
        writer.add(A, "a/0", Batch.of([bytes(2000)]))
    assert caught.value.outcome == "not_written"
    writer.discard()
    assert disk.names() == []


def test_every_flipped_bit_is_found() -> None:
    disk = SimulatedDisk()
    file = staged(disk)
    for bit in range(8 * file.size):
        damaged = disk.killed()
        damaged.flip_bit(f"staged/{file.name}", bit)
        with pytest.raises(Corrupt, match=r"staged/one\.-\.0\.try\.0\.frames is (damaged|cut) at byte \d+"):
            list(staged_frames(damaged, file))


def test_the_frames_of_another_file_are_not_taken_for_these() -> None:
    disk = SimulatedDisk()
    file = staged(disk)
    with pytest.raises(Corrupt, match=r"damaged at byte 0: the frame is of file"):
        list(staged_frames(disk, file._replace(id=file.id ^ 1)))


def test_a_file_in_the_place_of_another_is_damage() -> None:
    one, other = SimulatedDisk(), SimulatedDisk()
    staged(other)
    with pytest.raises(Corrupt, match=r"damaged at byte 0: the frame is of file"):
        list(staged_frames(other, staged(one)))


def test_a_frame_that_is_missing_in_between_is_found() -> None:
    disk = SimulatedDisk()
    file = staged(disk)
    data = disk.contents(f"staged/{file.name}")
    first, second = (batch for _, batch in list(staged_frames(disk, file))[:2])
    assert (len(first), len(second)) == (2, 1)
    shorter = disk.create("staged/shorter")
    shorter.write([data[136:]], 0)
    with pytest.raises(Corrupt, match=r"staged/shorter is damaged at byte 0"):
        list(staged_frames(disk, StagedFile("shorter", file.id, file.size - 136)))

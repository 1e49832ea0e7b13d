"""The rules of docs/rules.md, each by the history that breaks a log without it."""

import errno
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import product

import pytest

from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.folder.published import Owner, PublishedReader, PublishedWriter
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.file import SimulatedFile
from cordwood.simulation.folder import SimulatedFolder
from cordwood.simulation.ledger import Fate
from cordwood.simulation.power import PowerCut
from tests.support.folder.one_log import during_next_sync

# Large appends get frames of their own: a group of them is several writes before one sync.
LARGE = 300_000
ROOMY = FolderSettings(plog_bytes_max=1 << 22)


class KeepWrites:
    """Keeps all names and sizes, and of the unsynced writes below a folder the chosen ones, each whole."""

    def __init__(self, kept: Sequence[bool], folder: str = "plogs/") -> None:
        self.kept = kept
        self.folder = folder

    def keeps_name(self, change: str) -> bool:
        return True

    def kept_parts(self, name: str, number: int, position: int, length: int) -> Iterable[range]:
        if not name.startswith(self.folder) or self.kept[number]:
            return (range(length),)
        return ()

    def size(self, name: str, sizes: Sequence[int]) -> int:
        return len(sizes) - 1

    def torn_size(self, name: str, smallest: int, largest: int) -> int:
        return largest


def one_log(settings: FolderSettings | None = None) -> SimulatedFolder:
    folder = SimulatedFolder() if settings is None else SimulatedFolder(settings=settings)
    folder.open()
    folder.create_topic("a")
    folder.put("a")
    folder.run()
    return folder


def cut_at_the_sync_of(folder: SimulatedFolder, appends: int) -> None:
    """Write a group of large appends; the power fails when they are all written, and not synced."""
    folder.disk.crash_at(folder.disk.operations + appends + 1)
    for _ in range(appends):
        folder.put("a", 1, LARGE)
    with pytest.raises(PowerCut):
        folder.run()
    assert " sync plogs/" in folder.disk.history[-1]


@pytest.mark.parametrize("kept", list(product((True, False), repeat=3)), ids=str)
def test_r1_of_an_unsynced_group_the_frames_before_the_first_hole_survive(kept: list[bool]) -> None:
    folder = one_log(ROOMY)
    cut_at_the_sync_of(folder, 3)
    found = folder.power_cut(KeepWrites(kept))
    found.open()
    found.check(settle=True)
    before_the_hole = [*kept, False].index(False)
    assert found.log("a").extent().durable.next_offset == 1 + before_the_hole


def test_r1_a_frame_after_a_hole_never_comes_back() -> None:
    folder = one_log(ROOMY)
    cut_at_the_sync_of(folder, 2)
    found = folder.power_cut(KeepWrites([False, True]))
    for _ in range(4):
        found.open()
        found.check(settle=True)
        # As large as the lost frame: written to its place it would lead to the frame after the hole.
        found.put("a", 1, LARGE)
        found.run()
        found.check()
        found = found.power_cut("all")


def test_r1_an_open_never_writes_frames_to_a_plog_of_an_earlier_open() -> None:
    folder = one_log()
    killed = folder.killed()
    earlier = {name: killed.disk.contents(name) for name in killed.disk.names() if name.startswith("plogs/")}
    killed.open()
    killed.put("a")
    killed.run()
    for name, contents in earlier.items():
        if name in killed.disk.names():
            written = contents.rstrip(b"\0")
            now = killed.disk.contents(name)
            assert now.startswith(written)
            assert b"CORD" not in now[len(written) :]


def test_r2_a_plog_takes_records_only_once_its_name_is_durable() -> None:
    folder = SimulatedFolder()
    folder.open()
    folder.create_topic("a")
    for _ in range(8):
        folder.put("a", 1, 3000)
        folder.run()
        found = folder.power_cut("none")
        found.open()
        found.check(settle=True)


def test_r2_a_folder_whose_sync_failed_is_made_anew() -> None:
    for count in range(3):
        folder = SimulatedFolder()
        folder.disk.fail("sync_folder", after=count)
        try:
            folder.open()
        except OSError:
            folder.open()
        folder.create_topic("a")
        folder.put("a")
        folder.run()
        found = folder.power_cut("none")
        found.open()
        found.check(settle=True)


def test_r7_offsets_continue_after_a_trim_to_the_end_and_any_crash() -> None:
    folder = one_log()
    folder.put("a", 4)
    folder.run()
    folder.trim("a", 5)
    folder.run()
    for crash in (folder.power_cut("none"), folder.power_cut("all"), folder.killed()):
        assert crash.check_view()["a/0"].start == 5
        crash.open()
        crash.run()
        write = crash.put("a")
        crash.run()
        crash.check()
        assert write.first_offset == 5


def test_r7_the_trim_point_is_durable_before_a_plog_goes() -> None:
    folder = one_log()
    for _ in range(4):
        folder.put("a", 1, 3000)
        folder.run()
    folder.trim("a", 4)
    before = len(folder.disk.history)
    folder.run()
    removed = [entry for entry in folder.disk.history[before:] if " remove plogs/" in entry]
    assert removed
    trimmed = next(entry for entry in folder.disk.history if "coordinator trim committed" in entry)
    assert int(trimmed.split()[0]) < int(removed[0].split()[0])


def test_r7_a_trim_that_a_crash_cut_short_is_finished_by_the_next_open() -> None:
    folder = one_log()
    for _ in range(6):
        folder.put("a", 1, 3000)
        folder.run()
    # Confirmed, but nothing of what frees the space has run.
    folder.trim("a", 6)
    killed = folder.killed()
    killed.open()
    killed.check(settle=True)
    killed.run()
    assert len(killed.log("a").extent().chain) <= 2
    assert len([name for name in killed.disk.names() if name.startswith("plogs/")]) <= 3


@pytest.mark.parametrize("damaged_copy", [0, 1])
def test_r7_of_the_two_copies_of_a_start_the_sound_one_is_written_last(damaged_copy: int) -> None:
    disk, slot, owner = SimulatedDisk(), 1, Owner(1, 0)
    PublishedWriter(disk, 1).put_starts({(slot, owner): 5})
    found = disk.power_cut("none")
    found.flip_bit("published/ends", 8 * (128 * slot + 64 + 32 * damaged_copy))
    writer = PublishedWriter(found, 2)
    found.crash_at(found.operations + 1, written=10)
    with pytest.raises(PowerCut):
        writer.put_starts({(slot, owner): 8})
    assert PublishedReader(found.power_cut("all")).start(slot, owner) == 5


@pytest.mark.parametrize("kept", list(product((True, False), repeat=2)), ids=str)
def test_r7_a_start_that_a_killed_writer_left_unsynced_is_not_relied_upon(
    kept: tuple[bool, bool],
) -> None:
    disk, slot, owner = SimulatedDisk(), 1, Owner(1, 0)
    writer = PublishedWriter(disk, 1)
    writer.put_starts({(slot, owner): 5})
    # One copy of the next start is synced, the other is written when the process is killed.
    disk.crash_at(disk.operations + 4)
    with pytest.raises(PowerCut):
        writer.put_starts({(slot, owner): 8})
    assert disk.history[-1].endswith("sync published/ends")
    found = disk.killed()
    writer = PublishedWriter(found, 2)
    # The power fails while the next writer replaces one of them.
    found.crash_at(found.operations + 1, written=10)
    with pytest.raises(PowerCut):
        writer.put_starts({(slot, owner): 9})
    assert PublishedReader(found.power_cut(KeepWrites(kept, "published/"))).start(slot, owner) == 8


def test_r7_the_publishing_of_an_open_does_not_undo_a_trim_of_that_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, slot, owner = SimulatedDisk(), 1, Owner(1, 0)
    writer = PublishedWriter(disk, 1)
    with ThreadPoolExecutor(1) as beside:
        trims: list[Future[None]] = []

        def trim() -> None:
            trims.append(beside.submit(writer.put_starts, {(slot, owner): 8}))
            wait(trims, 0.2)  # it may have to wait for its turn

        during_next_sync(monkeypatch, trim)
        writer.put_starts({(slot, owner): 5})
    trims[0].result()
    assert PublishedReader(disk.power_cut("none")).start(slot, owner) == 8


def test_a_close_waits_for_an_end_that_is_being_published(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, slot, owner = SimulatedDisk(), 1, Owner(1, 0)
    writer = PublishedWriter(disk, 1)
    write = SimulatedFile.write
    with ThreadPoolExecutor(1) as beside:

        def slow(file: SimulatedFile, buffers: Sequence[bytes], position: int, size: int | None = None) -> None:
            wait([beside.submit(writer.close)], 0.2)
            write(file, buffers, position, size)

        monkeypatch.setattr(SimulatedFile, "write", slow)
        # To a file that is closed it would go nowhere, or, on a real disk, into whatever has the descriptor now.
        writer.put_end(slot, owner, Durable(None, 0, 5))
    assert disk.open_files() == []


def test_r8_recovered_frames_are_on_the_disk_before_anybody_is_shown_them() -> None:
    folder = one_log()
    # Killed between the write and the sync: the frame is in the page cache alone.
    folder.disk.crash_at(folder.disk.operations + 2)
    write = folder.put("a", 2)
    with pytest.raises(PowerCut):
        folder.run()
    killed = folder.killed()
    killed.open()
    killed.check(settle=True)
    assert killed.ledger("a").writes[write.number].fate is Fate.ACKED
    cut = killed.power_cut("none")
    cut.open()
    cut.check(settle=True)


@pytest.mark.parametrize("published", range(6))
@pytest.mark.parametrize("closed", [False, True], ids=["cut off", "closed"])
def test_r8_a_writer_that_has_not_used_a_log_changes_nothing_for_readers(published: int, closed: bool) -> None:
    folder = one_log()
    for _ in range(4):
        folder.put("a")
        folder.run()
    if closed:
        folder.close()
    # The ends are never synced: a power cut may leave any of those that were published.
    cut = folder.power_cut(KeepWrites([number < published for number in range(100)], "published/ends"))
    shown = cut.check_view()["a/0"]
    # Frames that nothing confirms as synced, not even a later frame, are not shown.
    assert shown.end >= (4 if closed or published > 2 else 0)
    cut.open()
    beside = cut.check_view(beside_writer=True)["a/0"]
    assert beside.end >= shown.end
    assert beside.values[: len(shown.values)] == shown.values
    cut.put("a")
    cut.run()
    assert cut.check_view(beside_writer=True)["a/0"].end > beside.end


def test_r8_without_room_for_a_new_catalog_old_ends_are_not_believed() -> None:
    folder = one_log()
    for _ in range(4):
        folder.put("a")
        folder.run()
    # Of the ends the metadata's and the first of the log's are on the disk.
    cut = folder.power_cut(KeepWrites([number < 4 for number in range(100)], "published/ends"))
    shown = cut.check_view()["a/0"]
    assert shown.end >= 4
    cut.disk.fail("create", name_contains="catalog.new", error=errno.ENOSPC, times=100)
    cut.open()
    assert cut.check_view(beside_writer=True)["a/0"].end >= shown.end


def test_r8_recovered_metadata_is_on_the_disk_before_it_is_built_upon() -> None:
    for at in range(1, 60):
        folder = SimulatedFolder()
        folder.open()
        folder.create_topic("a")
        folder.disk.crash_at(folder.disk.operations + at)
        try:
            for _ in range(3):
                folder.put("a", 1, 3000)
                folder.run()
        except PowerCut:
            pass
        killed = folder.killed()
        killed.open()
        killed.check(settle=True)
        cut = killed.power_cut("none")
        cut.open()
        cut.check(settle=True)


def test_r8_a_reader_stops_at_what_is_synced_though_whole_frames_follow() -> None:
    folder = one_log()
    folder.disk.crash_at(folder.disk.operations + 2)
    folder.put("a", 2)
    with pytest.raises(PowerCut):
        folder.run()
    killed = folder.killed()
    assert killed.check_view()["a/0"].end == 1
    # The next writing open shows the rest.
    killed.open()
    killed.check(settle=True)
    assert killed.log("a").extent().durable.next_offset == 3


def test_r8_a_reader_changes_nothing_on_the_disk() -> None:
    folder = one_log()
    folder.trim("a", 1)
    folder.put("a", 2)
    folder.run()
    for crash in (folder.killed(), folder.power_cut("all"), folder.power_cut("none")):
        crash.check_view()
        assert crash.disk.operations == 0


def test_r8_acks_wait_until_the_rollover_is_recorded_and_leave_in_order() -> None:
    folder = one_log()
    folder.disk.fail("coordinator", name_contains="set_metadata_plog", times=100)
    # Fills metadata plogs until a new one is needed, which the coordinator does not take.
    for _ in range(12):
        folder.put("a", 1, 3000)
        folder.run()
    waiting = folder.unanswered()
    assert waiting
    killed = folder.killed()
    killed.open()
    killed.check(settle=True)
    folder.disk.forget_faults()
    folder.tick()
    # The ledger holds acks to offset order.
    assert not folder.unanswered()
    assert all(write.fate is Fate.ACKED for write in waiting)
    folder.check()


def test_r9_an_append_that_is_written_and_not_synced_is_not_acked() -> None:
    folder = one_log()
    for at in (1, 2):
        life = folder.killed()
        life.open()
        life.put("a")
        life.run()
        life.disk.crash_at(life.disk.operations + at)
        write = life.put("a")
        with pytest.raises(PowerCut):
            life.run()
        assert write.fate is Fate.UNDECIDED

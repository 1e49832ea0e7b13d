"""One suite for the machine's disk and the simulated one, so that the second can replace the first."""

import errno
from pathlib import Path

import pytest

from cordwood.log.native.env.disk import Disk, RealDisk
from cordwood.simulation.disk import SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path) if request.param == "real" else SimulatedDisk()


def bytes_of(disk: Disk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return bytes(file.read(file.size() + 1, 0))
    finally:
        file.close()


def test_a_hint_to_begin_a_sync_changes_nothing_that_can_be_read(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"x" * 5000], 0)
    file.begin_sync(0, 5000)
    assert (file.size(), bytes(file.read(9000, 0))) == (5000, b"x" * 5000)


def test_what_is_written_is_read_at_any_position(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"hello ", bytearray(b"wide "), memoryview(b"world")], 0)
    file.write([b"HELLO"], 0)
    assert bytes(file.read(16, 0)) == b"HELLO wide world"
    assert bytes(file.read(4, 6)) == b"wide"
    assert file.size() == 16
    assert file.name == "a"


def test_a_write_of_nothing_changes_nothing(disk: Disk) -> None:
    file = disk.create("a")
    file.write([], 0)
    file.write([b""], 100)
    assert file.size() == 0


def test_more_buffers_than_one_system_call_takes_are_all_written(disk: Disk) -> None:
    buffers = [number.to_bytes(3, "big") for number in range(5000)]
    file = disk.create("a")
    file.write(buffers, 7)
    assert bytes(file.read(20_000, 7)) == b"".join(buffers)


def test_a_read_is_short_only_at_the_end(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"0123456789"], 0)
    assert bytes(file.read(100, 4)) == b"456789"
    assert bytes(file.read(100, 10)) == b""
    assert bytes(file.read(100, 99)) == b""


def test_what_was_read_belongs_to_the_reader(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"abc"], 0)
    view = file.read(3, 0)
    view[0] = ord("X")
    file.write([b"xyz"], 0)
    assert bytes(view) == b"Xbc"
    assert bytes(file.read(3, 0)) == b"xyz"


def test_a_buffer_may_change_after_it_was_written(disk: Disk) -> None:
    file = disk.create("a")
    buffer = bytearray(b"abc")
    file.write([buffer], 0)
    buffer[:] = b"xyz"
    assert bytes(file.read(3, 0)) == b"abc"


def test_a_hole_reads_as_zeros(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"end"], 1000)
    assert bytes(file.read(2000, 0)) == bytes(1000) + b"end"


def test_allocate_makes_a_file_longer_with_zeros_and_never_shorter(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"abc"], 0)
    file.allocate(5000)
    assert bytes(file.read(6000, 0)) == b"abc" + bytes(4997)
    file.allocate(10)
    assert file.size() == 5000


def test_truncate_forgets_what_it_cuts(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"abcdef"], 0)
    file.truncate(2)
    assert file.size() == 2
    file.truncate(4)
    assert bytes(file.read(10, 0)) == b"ab\0\0"


def test_two_openings_of_a_file_see_the_same_bytes(disk: Disk) -> None:
    writer = disk.create("a")
    reader = disk.open("a")
    writer.write([b"abc"], 0)
    writer.sync()
    assert bytes(reader.read(3, 0)) == b"abc"
    disk.open("a", write=True).write([b"X"], 1)
    assert bytes(reader.read(3, 0)) == b"aXc"


def test_a_name_is_created_once(disk: Disk) -> None:
    disk.create("a").write([b"abc"], 0)
    with pytest.raises(FileExistsError):
        disk.create("a")
    assert bytes_of(disk, "a") == b"abc"


def test_a_missing_file_or_folder_is_not_found(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    with pytest.raises(FileNotFoundError):
        disk.open("a", write=True)
    with pytest.raises(FileNotFoundError):
        disk.create("folder/a")
    with pytest.raises(FileNotFoundError):
        disk.make_folder("folder/below")
    with pytest.raises(FileNotFoundError):
        disk.sync_folder("folder")
    with pytest.raises(FileNotFoundError):
        disk.replace("a", "b")


def test_a_removed_file_is_gone_and_removing_it_again_is_fine(disk: Disk) -> None:
    disk.create("a").close()
    disk.remove("a")
    disk.remove("a")
    disk.remove("folder/a")
    assert disk.list("") == []


def test_who_has_a_removed_file_open_can_go_on_reading_it(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"abc"], 0)
    disk.remove("a")
    disk.create("a").write([b"new"], 0)
    assert bytes(file.read(3, 0)) == b"abc"


def test_replace_renames_over_another_file(disk: Disk) -> None:
    disk.create("new").write([b"new"], 0)
    disk.create("old").write([b"old, and longer"], 0)
    still_open = disk.open("old")
    disk.replace("new", "old")
    assert disk.list("") == ["old"]
    assert bytes_of(disk, "old") == b"new"
    assert bytes(still_open.read(3, 0)) == b"old"


def test_replace_takes_a_free_name_and_its_own(disk: Disk) -> None:
    disk.create("a").write([b"abc"], 0)
    disk.replace("a", "b")
    disk.replace("b", "b")
    assert disk.list("") == ["b"]
    assert bytes_of(disk, "b") == b"abc"


def test_a_replace_stays_in_its_folder(disk: Disk) -> None:
    disk.make_folder("folder")
    disk.create("a").close()
    with pytest.raises(ValueError, match="stays in its folder"):
        disk.replace("a", "folder/a")


def test_list_names_the_plain_files_of_one_folder_in_order(disk: Disk) -> None:
    disk.make_folder("folder")
    disk.make_folder("folder/below")
    for name in ("folder/b", "folder/a", "folder/below/c", "d"):
        disk.create(name).close()
    assert disk.list("folder") == ["a", "b"]
    assert disk.list("") == ["d"]
    assert disk.list("missing") == []
    assert disk.list("missing/below") == []


def test_an_empty_folder_is_removed_and_one_with_files_stays(disk: Disk) -> None:
    disk.remove_folder("folder")
    disk.make_folder("folder")
    disk.create("folder/a").close()
    disk.remove_folder("folder")
    assert disk.list("folder") == ["a"]
    disk.remove("folder/a")
    disk.remove_folder("folder")
    with pytest.raises(FileNotFoundError):
        disk.create("folder/a")


def test_a_folder_may_be_made_twice_but_not_over_a_file(disk: Disk) -> None:
    disk.make_folder("")
    disk.make_folder("folder")
    disk.create("folder/a").close()
    disk.make_folder("folder")
    assert disk.list("folder") == ["a"]
    with pytest.raises(FileExistsError):
        disk.make_folder("folder/a")
    disk.sync_folder("folder")
    disk.sync_folder("")


def test_a_file_is_no_folder_and_a_folder_is_no_file(disk: Disk) -> None:
    disk.create("a").close()
    disk.make_folder("folder")
    for use in (disk.list, disk.sync_folder):
        with pytest.raises(NotADirectoryError):
            use("a")
    with pytest.raises(NotADirectoryError):
        disk.create("a/b")
    with pytest.raises(FileExistsError):
        disk.create("folder")
    with pytest.raises(IsADirectoryError):
        disk.open("folder", write=True)
    with pytest.raises(IsADirectoryError):
        disk.remove("folder")
    with pytest.raises(IsADirectoryError):
        disk.replace("a", "folder")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../a", "folder/../../a", "a/", "a//b", ".", "a\0b"])
def test_no_name_leads_out_of_the_disk(disk: Disk, name: str) -> None:
    disk.create("ok").close()
    for use in (disk.create, disk.open, disk.remove):
        with pytest.raises(ValueError, match="not a name"):
            use(name)
    for pair in ((name, "ok"), ("ok", name)):
        with pytest.raises(ValueError, match="not a name"):
            disk.replace(*pair)
    if name:
        for folder_use in (disk.list, disk.make_folder, disk.sync_folder):
            with pytest.raises(ValueError, match="not a name"):
                folder_use(name)


def test_a_closed_file_raises_and_may_be_closed_again(disk: Disk) -> None:
    file = disk.create("a")
    file.write([b"abc"], 0)
    file.close()
    file.close()
    uses = [
        lambda: file.write([b"x"], 0),
        lambda: file.read(1, 0),
        file.sync,
        lambda: file.allocate(100),
        lambda: file.truncate(0),
        file.size,
    ]
    for use in uses:
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EBADF
    assert bytes_of(disk, "a") == b"abc"


def test_a_file_opened_for_reading_cannot_be_changed(disk: Disk) -> None:
    disk.create("a").write([b"abc"], 0)
    file = disk.open("a")
    with pytest.raises(OSError):
        file.write([b"x"], 0)
    with pytest.raises(OSError):
        file.allocate(9)
    with pytest.raises(OSError):
        file.truncate(0)
    file.sync()
    assert bytes(file.read(9, 0)) == b"abc"


def test_a_position_or_size_below_zero_is_refused(disk: Disk) -> None:
    file = disk.create("a")
    for use in (lambda: file.write([b"x"], -1), lambda: file.read(1, -1), lambda: file.truncate(-1)):
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EINVAL

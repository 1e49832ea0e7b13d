"""What only the machine's disk does: calls that do less than they were asked, space, durable parents."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from cordwood.log.native.env.disk import Buffer, RealDisk


def test_the_real_disk_goes_on_after_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwritev = os.pwritev

    def seven_bytes_at_most(fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return pwritev(fd, [b"".join(buffers)[:7]], position)

    monkeypatch.setattr(os, "pwritev", seven_bytes_at_most)
    buffers = [b"abc", b"", b"defghijklmnopqr", b"s", b"tuvwxyz" * 3]
    RealDisk(tmp_path).create("a").write(buffers, 5)
    assert (tmp_path / "a").read_bytes() == bytes(5) + b"".join(buffers)


def test_the_real_disk_goes_on_after_short_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).create("a")
    file.write([b"0123456789" * 10], 0)
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, position: preadv(fd, [views[0][:7]], position))
    assert bytes(file.read(50, 3)) == (b"0123456789" * 10)[3:53]
    assert bytes(file.read(500, 95)) == b"56789"


def test_a_write_that_makes_no_progress_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk(tmp_path).create("a")
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, position: 0)
    with pytest.raises(OSError, match="no progress"):
        file.write([b"abc"], 0)


def test_the_real_disk_reserves_the_space_it_allocates(tmp_path: Path) -> None:
    RealDisk(tmp_path).create("a").allocate(1 << 20)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 1 << 20


def test_zeros_are_written_where_space_cannot_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_supported(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", not_supported)
    file = RealDisk(tmp_path).create("a")
    file.write([b"abc"], 0)
    file.allocate(3 << 20)
    assert bytes(file.read(4 << 20, 0)) == b"abc" + bytes((3 << 20) - 3)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 3 << 20


def test_a_file_keeps_its_size_when_the_space_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_of_it(fd: int, offset: int, size: int) -> None:
        os.ftruncate(fd, offset + size // 2)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", half_of_it)
    file = RealDisk(tmp_path).create("a")
    file.write([b"abc"], 0)
    with pytest.raises(OSError) as caught:
        file.allocate(1000)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 3


def test_the_root_is_made_with_its_parents_and_their_names_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    root = tmp_path / "one" / "two"
    disk = RealDisk(root)
    disk.make_folder("")
    assert root.is_dir()
    assert synced[-2:] == [str(tmp_path), str(tmp_path / "one")]
    synced.clear()
    disk.make_folder("plogs")
    disk.sync_folder("")
    disk.sync_folder("plogs")
    assert synced == [str(root), str(root / "plogs")]


def test_files_are_not_inherited_by_other_programs(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    for file in (disk.create("a"), disk.open("a"), disk.open("a", write=True)):
        assert not os.get_inheritable(file._fd)

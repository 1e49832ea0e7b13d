"""What the simulated disk takes away, each way shown alone, and that it takes nothing that was synced."""

from collections.abc import Iterable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.simulation.disk import SimulatedDisk
from cordwood.simulation.power import SECTOR, Chance, Fixed

SEEDS = range(200)


class Keep:
    """Keeps everything but the parts of writes, which the test chooses by the number of the change."""

    def __init__(self, **parts: Iterable[range]) -> None:
        self.parts = parts

    def keeps_name(self, change: str) -> bool:
        return True

    def kept_parts(self, name: str, number: int, position: int, length: int) -> Iterable[range]:
        return self.parts.get(f"change_{number}", ())

    def size(self, name: str, sizes: Sequence[int]) -> int:
        return len(sizes) - 1

    def torn_size(self, name: str, smallest: int, largest: int) -> int:
        return largest


def durable_file(disk: SimulatedDisk, name: str, contents: bytes) -> None:
    file = disk.create(name)
    file.write([contents], 0)
    file.sync()
    file.close()
    disk.sync_folder(name.rpartition("/")[0])


def found(disk: SimulatedDisk, name: str) -> set[bytes | None]:
    """All that chance leaves of a file, None where its name is lost."""
    cuts = [disk.power_cut(Random(seed)) for seed in SEEDS]
    return {cut.contents(name) if name in cut.names() else None for cut in cuts}


def test_what_was_synced_by_content_and_name_is_always_found() -> None:
    disk = SimulatedDisk()
    disk.make_folder("plogs")
    disk.sync_folder("")
    durable_file(disk, "plogs/1", b"abc")
    assert found(disk, "plogs/1") == {b"abc"}
    assert disk.power_cut("none").contents("plogs/1") == b"abc"


def test_an_unsynced_name_is_lost_though_its_content_was_synced() -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    file.write([b"abc"], 0)
    file.sync()
    assert disk.power_cut("none").names() == []
    assert disk.power_cut("all").contents("a") == b"abc"
    assert found(disk, "a") == {None, b"abc"}


def test_unsynced_content_is_lost_though_its_name_was_synced() -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    file.write([b"abc"], 0)
    disk.sync_folder("")
    assert disk.power_cut("none").contents("a") == b""
    assert disk.power_cut("all").contents("a") == b"abc"
    assert {b"", bytes(3), b"abc"} <= found(disk, "a")
    assert None not in found(disk, "a")


def test_a_size_is_kept_without_the_content() -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    file.write([b"abc"], 0)
    only_sizes = Fixed(names=True, sizes=True, contents=False)
    assert disk.power_cut(only_sizes).contents("a") == bytes(3)


def test_an_unsynced_allocation_leaves_any_of_the_sizes() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    file = disk.open("a", write=True)
    file.allocate(10)
    file.truncate(1)
    file.allocate(5)
    assert found(disk, "a") == {b"abc", b"abc" + bytes(7), b"a", b"a" + bytes(4)}
    file.sync()
    assert found(disk, "a") == {b"a" + bytes(4)}


def test_a_lost_truncate_brings_the_cut_bytes_back() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abcdef")
    disk.open("a", write=True).truncate(2)
    assert disk.contents("a") == b"ab"
    assert found(disk, "a") == {b"ab", b"abcdef"}


def test_a_later_write_is_kept_while_an_earlier_one_is_lost() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"......")
    file = disk.open("a", write=True)
    file.write([b"one"], 0)
    file.write([b"two"], 3)
    assert disk.power_cut(Keep(change_1=[range(3)])).contents("a") == b"...two"
    assert {b"...two", b"one...", b"onetwo", b"......"} <= found(disk, "a")


def test_a_lost_overwrite_leaves_the_earlier_write() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"...")
    file = disk.open("a", write=True)
    file.write([b"one"], 0)
    file.write([b"two"], 0)
    assert disk.power_cut(Keep(change_0=[range(3)])).contents("a") == b"one"
    assert {b"...", b"one", b"two"} <= found(disk, "a")


def test_a_write_is_torn_at_the_sectors_of_the_file() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", bytes(4 * SECTOR))
    position = SECTOR - 100
    disk.open("a", write=True).write([b"x" * (2 * SECTOR)], position)
    pieces = [range(0, 100), range(100, 100 + SECTOR), range(100 + SECTOR, 2 * SECTOR)]
    seen = set()
    for seed in SEEDS:
        contents = disk.power_cut(Chance(Random(seed), torn_sectors=False)).contents("a")
        written = contents[position : position + 2 * SECTOR]
        for piece in pieces:
            assert set(written[piece.start : piece.stop]) in ({0}, {ord("x")})
        seen.add(tuple(written[piece.start] != 0 for piece in pieces))
    assert len(seen) == 8


def test_a_sector_is_torn_at_a_byte() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"." * 100)
    disk.open("a", write=True).write([b"x" * 100], 0)
    torn = {contents for contents in found(disk, "a") if contents and len(set(contents)) == 2}
    assert any(contents.startswith(b"x") for contents in torn)
    assert any(contents.endswith(b"x") for contents in torn)


def test_a_write_that_makes_a_file_longer_is_torn_in_its_size() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    disk.open("a", write=True).write([b"x" * 1000], 3)
    sizes = {len(contents) for contents in found(disk, "a") if contents is not None}
    assert {3, 1003} < sizes
    assert all(3 <= size <= 1003 for size in sizes)
    whole_sectors = {len(disk.power_cut(Chance(Random(seed), torn_sectors=False)).contents("a")) for seed in SEEDS}
    assert whole_sectors == {3, SECTOR, 1003}


def test_a_removal_is_undone_with_the_durable_content() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    disk.remove("a")
    assert disk.names() == []
    assert disk.power_cut("none").contents("a") == b"abc"
    assert found(disk, "a") == {None, b"abc"}
    disk.sync_folder("")
    assert found(disk, "a") == {None}


def test_a_replace_is_lost_or_kept_as_a_whole() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "old", b"old")
    durable_file(disk, "new", b"new")
    disk.replace("new", "old")
    states = set()
    for seed in SEEDS:
        cut = disk.power_cut(Random(seed))
        states.add(tuple((name, cut.contents(name)) for name in cut.names()))
    assert states == {(("new", b"new"), ("old", b"old")), (("old", b"new"),)}


def test_a_replace_with_unsynced_content_leaves_an_empty_file() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"old")
    disk.create("a.new").write([b"new"], 0)
    disk.replace("a.new", "a")
    disk.sync_folder("")
    assert disk.power_cut("none").contents("a") == b""


def test_no_file_is_found_under_two_names() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    disk.replace("a", "b")
    disk.replace("b", "c")
    names = {tuple(disk.power_cut(Random(seed)).names()) for seed in SEEDS}
    assert names == {("a",), ("b",), ("c",)}


def test_a_lost_folder_takes_all_that_is_in_it() -> None:
    disk = SimulatedDisk()
    disk.make_folder("plogs")
    durable_file(disk, "plogs/1", b"abc")
    assert found(disk, "plogs/1") == {None, b"abc"}
    disk.sync_folder("")
    assert found(disk, "plogs/1") == {b"abc"}


def test_a_sync_covers_one_file_and_one_folder_alone() -> None:
    disk = SimulatedDisk()
    disk.make_folder("x")
    disk.make_folder("y")
    disk.sync_folder("")
    one, other = disk.create("x/1"), disk.create("y/1")
    one.write([b"one"], 0)
    other.write([b"other"], 0)
    one.sync()
    disk.sync_folder("x")
    cut = disk.power_cut("none")
    assert cut.names() == ["x/1"]
    assert cut.contents("x/1") == b"one"


def test_a_kill_takes_nothing_and_makes_nothing_durable() -> None:
    disk = SimulatedDisk()
    disk.create("a").write([b"abc"], 0)
    disk.sync_folder("")
    next_process = disk.killed()
    assert next_process.contents("a") == b"abc"
    assert next_process.power_cut("none").contents("a") == b""
    next_process.open("a").sync()
    assert next_process.power_cut("none").contents("a") == b"abc"
    assert disk.power_cut("none").contents("a") == b""


def test_a_cut_leaves_the_disk_it_was_taken_from_alone() -> None:
    disk = SimulatedDisk()
    durable_file(disk, "a", b"abc")
    cut = disk.power_cut("all")
    cut.open("a", write=True).write([b"xyz"], 0)
    cut.create("b").close()
    assert disk.names() == ["a"]
    assert disk.contents("a") == b"abc"
    assert disk.power_cut("none").contents("a") == b"abc"


def test_what_a_cut_left_is_durable() -> None:
    disk = SimulatedDisk()
    disk.create("a").write([b"abc"], 0)
    assert disk.power_cut("all").power_cut("none").contents("a") == b"abc"


def test_a_seed_always_gives_the_same_cut() -> None:
    def cut(seed: int) -> dict[str, bytes]:
        disk = SimulatedDisk()
        for name in ("a", "b", "c"):
            file = disk.create(name)
            file.write([b"x" * 2000], 0)
            file.truncate(900)
        left = disk.power_cut(Random(seed))
        return {name: left.contents(name) for name in left.names()}

    cuts = [cut(seed) for seed in range(50)]
    assert cuts == [cut(seed) for seed in range(50)]
    assert any(one != cuts[0] for one in cuts)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="most"):
        SimulatedDisk().power_cut("most")  # type: ignore[arg-type]  # what a typing slip would pass


writes = st.tuples(st.integers(0, 1500), st.integers(1, 1200), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(writes, max_size=8), st.integers(0, 2**32))
def test_every_byte_is_one_that_was_there_since_the_last_sync(steps: list[tuple[int, int, bool]], seed: int) -> None:
    disk = SimulatedDisk()
    file = disk.create("a")
    disk.sync_folder("")
    synced = b""
    allowed: list[set[int]] = []
    for number, (position, length, sync) in enumerate(steps, 1):
        file.write([bytes([number]) * length], position)
        allowed += [{0} for _ in range(position + length - len(allowed))]
        for place in range(position, position + length):
            allowed[place].add(number)
        if sync:
            file.sync()
            synced = disk.contents("a")
            allowed = [{byte} for byte in synced]
    left = disk.power_cut(Random(seed)).contents("a")
    assert len(synced) <= len(left) <= len(allowed)
    assert all(byte in here for byte, here in zip(left, allowed, strict=False))

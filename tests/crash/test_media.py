"""Single bits of a folder's files flip, or a file goes: all is right, or `Corrupt` with the file and what to do.

By default one of eight bits flips, chosen by a seed; `--flips 1` flips all of them.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cordwood.errors import Corrupt
from tests.support.crash.damaged_folder import (
    NEXT,
    Damaged,
    Truth,
    check_reading,
    check_writing,
    contents,
    small_folder,
)

STATES = pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
# A file, and what to do about it.
SAID = re.compile(
    r"(coordinator\.db|published/\w+|plog \w+/\w+/[0-9a-f]{16}|staged/\S+).*(restore|open the folder|put it)"
)

Check = Callable[[Path, Truth], None]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of opens need no true sync here."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield path / "data"
    shutil.rmtree(path)


def is_right(check: Check, path: Path, truth: Truth, what: str) -> bool:
    """Whether all is right; else the call raises."""
    try:
        check(path, truth)
    except Corrupt as error:
        if not SAID.search(str(error)):
            raise AssertionError(f"{what}: file or remedy is missing: {error}") from error
        return False
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error
    return True


def flip_bits(
    damaged: Damaged, path: Path, names: list[str], one_in: int, check: Check, *, refused: bool = False
) -> Counter[bool]:
    """Flip bits of these files, one at a time, of bytes that are not zero; how often all was right, and how often not.

    `refused`: where a call raises, no file was changed. So the next bit flips in the same files.
    """
    chance = Random("flips")
    rights: Counter[bool] = Counter()
    damaged.put(path)
    for name in names:
        for position, byte in enumerate(damaged.files[name]):
            for bit in range(8) if byte else ():
                if chance.randrange(one_in):
                    continue
                put_byte(path / name, position, byte ^ 1 << bit)
                right = is_right(check, path, damaged.truth, f"{name}, byte {position}, bit {bit}")
                rights[right] += 1
                if right or not refused:
                    damaged.put(path)
                else:
                    put_byte(path / name, position, byte)
    assert kept(contents(path)) == kept(damaged.files)
    return rights


def put_byte(path: Path, position: int, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([byte]))


def kept(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without the files that SQLite makes to look at a database, and without those that are empty."""
    return {name: data for name, data in files.items() if data and not name.endswith("-shm")}


def files_of(damaged: Damaged, *folders: str) -> list[str]:
    return [name for name in damaged.files if name.startswith(folders)]


@STATES
def test_a_bit_of_the_database_is_harmless_or_refuses_the_open(place: Path, flips: int, closed: bool) -> None:
    damaged = small_folder(place, closed=closed)
    names = files_of(damaged, "coordinator.db")
    rights = flip_bits(damaged, place, names, flips, check_writing, refused=True)
    # Of a log of changes SQLite uses what it has not copied to the database yet.
    assert rights[False] > rights[True] > 0


@STATES
def test_a_bit_of_what_is_published_is_harmless_to_the_writer(place: Path, flips: int, closed: bool) -> None:
    damaged = small_folder(place, closed=closed)
    rights = flip_bits(damaged, place, files_of(damaged, "published/"), flips, check_writing)
    assert set(rights) == {True}


@STATES
def test_a_bit_of_what_is_published_hides_no_trim_from_a_reader(place: Path, flips: int, closed: bool) -> None:
    damaged = small_folder(place, closed=closed)
    rights = flip_bits(damaged, place, files_of(damaged, "published/"), flips, check_reading, refused=True)
    assert rights[False] > rights[True] > 0


@STATES
@pytest.mark.parametrize("check", [check_writing, check_reading], ids=["writing", "reading"])
def test_a_bit_of_the_records_costs_their_log_alone(place: Path, flips: int, closed: bool, check: Check) -> None:
    # A few of them: `test_damage.py` flips all of them on a simulated disk.
    damaged = small_folder(place, closed=closed)
    rights = flip_bits(damaged, place, files_of(damaged, "plogs/", "staged/"), 16 * flips, check)
    assert rights[False] > rights[True] > 0


@STATES
def test_a_removed_file_is_made_anew_or_missed(place: Path, closed: bool, caplog: pytest.LogCaptureFixture) -> None:
    damaged = small_folder(place, closed=closed)
    right = set()
    for name in damaged.files:
        for check in (check_reading, check_writing):
            damaged.put(place)
            (place / name).unlink()
            if is_right(check, place, damaged.truth, f"without {name}"):
                right.add((check, name))
    assert {name for check, name in right if check is check_writing} >= set(files_of(damaged, "published/"))
    assert {name for check, name in right if check is check_reading} >= set(files_of(damaged, "coordinator.db"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # of the witness
    assert (check_writing, "coordinator.db") not in right
    assert closed or (check_writing, "coordinator.db-wal") not in right


@STATES
def test_readers_are_right_again_after_an_opening_for_writing(place: Path, closed: bool) -> None:
    damaged = small_folder(place, closed=closed)
    for name in files_of(damaged, "published/"):
        for harm in (Path.unlink, flip_all):
            damaged.put(place)
            harm(place / name)
            check_writing(place, damaged.truth)
            values = {log: [*values, NEXT] for log, values in damaged.truth.values.items()}
            check_reading(place, replace(damaged.truth, values=values))


def flip_all(path: Path) -> None:
    """Flip a bit in every byte that is not zero: more than a disk does by itself."""
    path.write_bytes(bytes(byte ^ 1 if byte else 0 for byte in path.read_bytes()))

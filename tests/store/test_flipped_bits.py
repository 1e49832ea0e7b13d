"""A bit of a store's files flips: a program reads what is true, or gets `Corrupt` with the file and what to do.

By default 100 bits flip in each state, chosen by a seed; `--flips 1` flips 800.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cordwood.errors import Corrupt
from cordwood.store.sqlite.schema import PAGE_BYTES
from tests.support.store.damaged_store import DamagedStore, check_reading, check_writing, small_store

# The store, and a remedy.
SAID = re.compile(r"store\.db.* restore the (store|file) from a copy")
FIRST_BYTES = 100
"""SQLite's header of the file."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one: hundreds of opens need no true sync here."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def flips(pytestconfig: pytest.Config) -> int:
    """How many bits flip."""
    return 800 // int(pytestconfig.getoption("--flips"))


async def flip(damaged: DamagedStore, folder: Path, name: str, at: int, bit: int) -> bool:
    """Whether all is right after this bit has flipped; else a call has raised `Corrupt`."""
    path = damaged.put(folder)
    data = bytearray(damaged.files[name])
    data[at] ^= 1 << bit
    (folder / name).write_bytes(data)
    where = f"{name}, byte {at}, bit {bit}"
    try:
        await (check_reading if bit % 4 else check_writing)(damaged, path)
    except Corrupt as error:
        if not SAID.search(str(error)):
            raise AssertionError(f"{where}: file or remedy is missing: {error}") from error
        return False
    except BaseException as error:
        raise AssertionError(f"{where}: {error!r}") from error
    return True


async def flip_some(damaged: DamagedStore, folder: Path, flips: int, *, last: int = 0) -> Counter[bool]:
    """Flip bits of any file, or of the last bytes of the log of changes."""
    chance = Random("store")
    # Zeros are most of a page, and nobody reads most of them.
    places = [
        (name, at)
        for name, data in damaged.files.items()
        for at, byte in enumerate(data)
        if byte and (not last or (name.endswith("-wal") and at >= len(data) - last))
    ]
    found: Counter[bool] = Counter()
    for name, at in chance.sample(places, flips):
        found[await flip(damaged, folder, name, at, chance.randrange(8))] += 1
    return found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trimmed", [False, True], ids=["logged", "trimmed"])
async def test_a_bit_of_a_closed_store_is_harmless_or_damage(folder: Path, flips: int, trimmed: bool) -> None:
    damaged = await small_store(folder, closed=True, trimmed=trimmed)
    found = await flip_some(damaged, folder, flips)
    assert found[False] > found[True] > 0


@pytest.mark.timeout(3600)
async def test_a_bit_of_a_killed_store_is_harmless_or_damage(folder: Path, flips: int) -> None:
    damaged = await small_store(folder, closed=False, trimmed=False)
    assert len(damaged.files["store.db-wal"]) > len(damaged.files["store.db"])
    found = await flip_some(damaged, folder, flips)
    assert found[False] > flips // 2


@pytest.mark.timeout(3600)
async def test_a_bit_of_the_last_batch_of_a_killed_store_is_harmless(folder: Path, flips: int) -> None:
    # It looks torn, SQLite rolls it back, and it is replicated again.
    damaged = await small_store(folder, closed=False, trimmed=False)
    assert set(await flip_some(damaged, folder, flips // 2, last=PAGE_BYTES)) == {True}


@pytest.mark.timeout(3600)
async def test_a_bit_of_the_first_bytes_is_harmless_or_damage(folder: Path, flips: int) -> None:
    damaged = await small_store(folder, closed=True, trimmed=True)
    places = [(at, bit) for at in range(FIRST_BYTES) for bit in range(8)]
    for at, bit in Random("header").sample(places, flips):
        await flip(damaged, folder, "store.db", at, bit)

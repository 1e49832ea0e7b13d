"""How large the plogs of a log are, and that the one that is made ahead is the one that is used."""

import pytest

from cordwood.log.native.engine import EngineSettings
from tests.unit.stream.one_log import OneLog

MIB = 1024 * 1024
LARGE = bytes(MIB)


@pytest.fixture
def one() -> OneLog:
    return OneLog(EngineSettings(), used=False)


def appended(one: OneLog, value: bytes, times: int) -> list[int]:
    """The MiB of each plog that was made for it, in their order; those of the metadata stream are smaller."""
    before = len(one.folder.disk.history)
    for _ in range(times):
        one.submit(value)
        one.run()
    made = [entry for entry in one.folder.disk.history[before:] if " allocate plogs/" in entry]
    return [size // MIB for size in (int(entry.split()[-1]) for entry in made) if size >= MIB]


def test_a_log_of_small_appends_begins_small_and_grows(one: OneLog) -> None:
    assert appended(one, bytes(100), 1) == [1]
    assert appended(one, bytes(MIB // 8), 40) == [4, 16]
    assert appended(one, bytes(MIB // 8), 200) == [16, 16]


def test_a_log_that_begins_with_a_large_append_has_room_for_more_of_them(one: OneLog) -> None:
    assert appended(one, LARGE, 7) == [16]
    # The next one is made when half of it is full, and nothing else when that is needed.
    assert appended(one, LARGE, 10) == [16]
    assert len(one.log.view().chain.links) == 2


def test_a_large_append_to_a_small_log_makes_the_next_plog_large(one: OneLog) -> None:
    appended(one, bytes(100), 1)
    assert appended(one, LARGE, 2) == [16]

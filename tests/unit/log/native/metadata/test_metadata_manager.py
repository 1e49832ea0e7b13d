"""The metadata manager: many services in one stream, whose plogs each begin with everything."""

import pytest

from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import Dropped, Full, whole_chain
from cordwood.log.native.metadata.reading import apply_batch
from cordwood.log.native.plog import PlogId
from cordwood.log.native.stream.reading.blocks import stored_batches
from cordwood.log.native.stream.rollover import ChainChange
from cordwood.simulation.file import SimulatedFile
from tests.support.folder.managed_folder import ManagedFolder, chain_of, plog


@pytest.fixture
def folder() -> ManagedFolder:
    return ManagedFolder()


def test_services_have_chains_of_their_own_by_name_also_after_a_reopen(folder: ManagedFolder) -> None:
    for place in range(4):
        for first, service in enumerate(["1/0", "1/1", "näme"], 1):
            folder.record(service, chain_of(100 * first, 4)[place])
    folder.record("1/1", Dropped([plog(200), plog(201)]))
    folder.record("short", *chain_of(900, 2))
    folder.record("short", Full(()))
    before = folder.chains()
    assert {name: [link.id.random for link in links] for name, links in before.items()} == {
        "1/0": [100, 101, 102, 103],
        "1/1": [202, 203],
        "näme": [300, 301, 302, 303],
    }
    assert [link.end for link in before["1/0"]] == [100, 100, 100, None]
    folder.close()
    folder.open()
    assert folder.chains() == before


def test_records_are_durable_when_done_and_done_in_the_order_of_calls(folder: ManagedFolder) -> None:
    for number in range(1, 60):
        folder.record(f"{number}", *chain_of(10 * number, 3), run=False)
    assert folder.recorded == []
    while folder.workers.run_one():
        assert set(folder.recorded) <= set(folder.after_power_cut().manager.chains)
    assert folder.recorded == [f"{number}" for number in range(1, 60)]


def test_each_new_metadata_plog_begins_with_the_whole_list(
    folder: ManagedFolder,
) -> None:
    def look(durable: Durable) -> None:
        assert durable.plog is not None
        chains: dict[str, Chain] = {}
        for batch in stored_batches(folder.plogs, durable.plog, 0, durable.end):
            apply_batch(chains, batch)
        assert {service: chain.links for service, chain in chains.items()} == folder.chains()
        folder.rollovers.append(durable)

    folder.look_at_rollover = look
    grown = {n: chain_of(1000 * n, 150) for n in range(1, 4)}
    for place in range(150):
        for n in grown:
            folder.record(f"{n}/0", grown[n][place])
            if place % 3 == 2:
                # So that the list stays short, and with it the plogs.
                folder.record(f"{n}/0", Dropped([plog(1000 * n + place - gone) for gone in range(1, 4)]))
    assert len(folder.rollovers) > 36
    assert len(folder.recorded) == 600


def test_the_coordinator_knows_the_latest_plog_and_older_ones_go(folder: ManagedFolder) -> None:
    for number in range(1, 300):
        folder.record("1/0", Full([Link(plog(number), 0)]))
        assert folder.rollovers[-1].plog == folder.latest()
        # Beside it only the next one, which is made ahead.
        assert len(folder.plogs.files() - {folder.latest().random}) <= 1
    assert len({durable.plog for durable in folder.rollovers}) == len(folder.rollovers) > 36
    folder.close()
    assert folder.plogs.files() == {folder.latest().random}
    assert (folder.coordinator.topics(), folder.coordinator.logs()) == ([], [])


def test_a_reopen_reads_one_metadata_plog_though_older_ones_are_left(
    folder: ManagedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.delete_older = False
    for number in range(1, 300):
        folder.record("1/0", Full([Link(plog(number), 0)]))
    folder.close()
    assert len(folder.plogs.files()) > 36
    read: set[str] = set()
    actual = SimulatedFile.read

    def noted(file: SimulatedFile, size: int, position: int) -> memoryview:
        read.add(file.name)
        return actual(file, size, position)

    monkeypatch.setattr(SimulatedFile, "read", noted)
    folder.open()
    assert read == {f"plogs/{folder.latest().file_name}"}
    assert folder.chains() == {"1/0": (Link(plog(299), 0),)}


def test_an_open_never_appends_to_the_plog_of_an_earlier_one(folder: ManagedFolder) -> None:
    folder.record("1/0", *chain_of(1, 2))
    first = folder.latest()
    folder.close()
    folder.open()
    assert folder.latest() == first
    folder.record("1/0", Dropped([plog(1)]))
    assert folder.latest() != first
    assert folder.plogs.files() == {folder.latest().random}


def test_metadata_plogs_grow_with_the_list_so_most_bytes_are_news(folder: ManagedFolder) -> None:
    for number in range(1, 300):
        folder.record(f"{number}", *chain_of(number, 1))
    assert len(folder.rollovers) < 20


def test_a_list_that_shrinks_gets_small_plogs_again(folder: ManagedFolder) -> None:
    def bytes_after_switches() -> int:
        for number in range(1, 400):
            folder.record("one", Full([Link(plog(number), 0)]))
        return len(folder.disk.contents(f"plogs/{folder.latest().file_name}"))

    short = bytes_after_switches()
    folder.record("many", *chain_of(1000, 200))
    assert bytes_after_switches() > 10 * short
    folder.record("many", Full(()))
    assert bytes_after_switches() == short


def test_the_stream_remembers_its_last_plog_alone(folder: ManagedFolder) -> None:
    for number in range(1, 60):
        folder.record("1/0", *chain_of(10 * number, 2))
        folder.record("1/0", Full(()))
    assert (len(folder.rollovers) > 10, len(folder.manager._stream.chain)) == (True, 1)


def test_a_trim_of_more_plogs_than_a_frame_can_name_is_recorded(folder: ManagedFolder) -> None:
    links = [Link(plog(number), number).sealed(100, number + 1, 5) for number in range(1, 90_001)]
    folder.record("1/0", *whole_chain(Chain(links)))
    folder.record("1/0", *ChainChange(0, dropped=links[:-1]).records())
    assert (folder.recorded, folder.manager.stuck()) == (["1/0", "1/0"], None)
    assert folder.chains() == {"1/0": (links[-1],)}
    folder.close()
    folder.open()
    assert folder.chains() == {"1/0": (links[-1],)}


@pytest.mark.parametrize("call", ["set_metadata_plog", "set_metadata_plog committed"])
def test_while_the_coordinator_fails_no_plogs_pile_up(folder: ManagedFolder, call: str) -> None:
    folder.record("1/0", *chain_of(1, 1))
    folder.disk.fail("coordinator", name_contains=call, times=10_000)
    for number in range(1, 30):
        folder.record("1/0", Full([Link(plog(number), 0)]))
    assert folder.manager.stuck() is not None
    for number in range(100, 400):
        folder.record(f"waits {number}", *chain_of(number, 1))
        folder.manager.retry()
        folder.workers.run_until_idle()
        # A crash may make any plog that it knows the latest; records that wait may need a larger one.
        assert len(folder.plogs.files()) <= 7
        assert folder.latest().random in folder.plogs.files()
    folder.disk.forget_faults()
    folder.manager.retry()
    folder.workers.run_until_idle()
    assert folder.manager.stuck() is None
    assert (len(folder.recorded), len(folder.chains())) == (330, 301)
    folder.close()
    assert folder.plogs.files() == {folder.latest().random}
    before = folder.chains()
    folder.open()
    assert folder.chains() == before


def test_a_plog_that_waits_for_the_coordinator_is_named_to_it_again(folder: ManagedFolder) -> None:
    folder.record("1/0", *chain_of(1, 1))
    folder.disk.fail("coordinator", name_contains="set_metadata_plog", times=1000)
    number = 1
    while folder.manager.stuck() is None:
        number += 1
        folder.record("1/0", Full([Link(plog(number), 0)]))
    waiting = folder.plogs.files()
    for _ in range(50):
        folder.manager.retry()
        folder.workers.run_until_idle()
        assert folder.plogs.files() == waiting
    folder.disk.forget_faults()
    folder.manager.retry()
    folder.workers.run_until_idle()
    assert folder.latest().random in waiting
    assert folder.chains() == {"1/0": (Link(plog(number), 0),)}


def test_plogs_that_stayed_for_readers_go_once_readers_know_another(folder: ManagedFolder) -> None:
    folder.delete_older = False
    for number in range(1, 100):
        folder.record("1/0", Full([Link(plog(number), 0)]))
    assert len(folder.plogs.files()) > 10
    folder.delete_older = True
    for number in range(100, 130):
        folder.record("1/0", Full([Link(plog(number), 0)]))
    folder.close()
    assert folder.plogs.files() == {folder.latest().random}


def test_a_plog_stays_until_the_coordinator_names_another_one(folder: ManagedFolder) -> None:
    folder.record("1/0", *chain_of(1, 1))
    folder.disk.fail("coordinator", name_contains="set_metadata_plog", times=2)
    told: list[int] = []
    actual = folder.coordinator.set_metadata_plog

    def noted(epoch: int, expected: str | None, id: str) -> None:
        told.append(PlogId.parse(id).random)
        actual(epoch, expected, id)

    folder.coordinator.set_metadata_plog = noted  # type: ignore[method-assign]  # to see the ids
    for number in range(1, 30):
        folder.record("1/0", Full([Link(plog(number), 0)]))
    while len(told) < 3:
        assert set(told) <= folder.plogs.files()
        folder.manager.retry()
        folder.workers.run_until_idle()
    assert not folder.plogs.files() & (set(told) - {folder.latest().random})


def test_a_record_that_cannot_be_applied_holds_up_no_other(
    folder: ManagedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.record("unknown", Dropped([plog(7)]), *chain_of(1, 2)[1:], run=False)
    folder.record("1/0", *chain_of(10, 1))
    assert folder.recorded == ["1/0"]
    assert "a record of service unknown failed" in caplog.text

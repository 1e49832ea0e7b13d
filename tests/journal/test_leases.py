"""A lease limits replication to one process a partition, and nothing depends on it (R24)."""

from cordwood import EventStore, Journal
from cordwood.store import Lease
from tests.support.journal.journals import TOPIC, Journals, append
from tests.support.kafka.waiting import until

SECONDS = 1.0
PARTITIONS = 2
KEYS = ("order-0", "order-1", "order-2", "order-3")


async def replicating(journals: Journals) -> Journal:
    """A journal that replicates in the background, as far as it gets leases."""
    journal = await journals.open(partitions=PARTITIONS, replicate=True, lease_seconds=SECONDS)
    await journal.pointer("order-0")
    return journal


async def leases(journals: Journals) -> tuple[EventStore, dict[int, Lease]]:
    store = await journals.store()
    return store, await store.leases(TOPIC)


def followed(journal: Journal) -> tuple[int, ...]:
    return journal.stats().replicated_partitions


async def test_one_of_two_processes_replicates_a_partition(journals: Journals) -> None:
    first = await replicating(journals)
    await until(lambda: followed(first) == (0, 1))
    second = await replicating(journals)
    for key in KEYS:
        await second.wait_replicated(await append(second, key, "1"))
    assert (followed(first), followed(second)) == ((0, 1), ())
    assert second.stats().replicated_events == 0
    _, held = await leases(journals)
    assert len({lease.owner for lease in held.values()}) == 1


async def test_another_process_continues_after_a_close(journals: Journals) -> None:
    first = await replicating(journals)
    await until(lambda: followed(first) == (0, 1))
    second = await replicating(journals)
    await first.close()
    _, held = await leases(journals)
    assert not held or "/" in held[0].owner  # released, or taken by the second already
    await until(lambda: followed(second) == (0, 1))
    await second.wait_replicated(await append(second, "order-1", "1"))


async def test_the_leases_of_a_dead_process_end(journals: Journals) -> None:
    journal = await journals.open(partitions=PARTITIONS)
    done = await append(journal, "order-1", "1")
    store = await journals.store()
    assert await store.take_leases(TOPIC, range(PARTITIONS), "a dead process", SECONDS) == {0, 1}
    next_one = await replicating(journals)
    await next_one.wait_replicated(done)
    await until(lambda: followed(next_one) == (0, 1))


async def test_a_process_that_has_lost_its_leases_stops(journals: Journals) -> None:
    journal = await replicating(journals)
    await until(lambda: followed(journal) == (0, 1))
    store, held = await leases(journals)
    await store.release_leases(TOPIC, held[0].owner)
    assert await store.take_leases(TOPIC, [1], "another process", 60) == {1}
    await until(lambda: followed(journal) == (0,))
    await store.release_leases(TOPIC, "another process")
    await until(lambda: followed(journal) == (0, 1))


async def test_a_catch_up_needs_no_lease(journals: Journals) -> None:
    journal = await journals.open(partitions=PARTITIONS)
    done = await append(journal, "order-1", "1")
    store = await journals.store()
    await store.take_leases(TOPIC, range(PARTITIONS), "another process", 60)
    await journal.catch_up()
    await journal.wait_replicated(done)


async def test_a_folder_needs_no_leases_and_kafka_does(journals: Journals) -> None:
    journal = await journals.open(partitions=PARTITIONS, replicate=True)
    await append(journal, "order-1", "1")
    await until(lambda: followed(journal) == (0, 1))
    _, held = await leases(journals)
    assert set(held) == (set() if journals.kind.log_url.startswith("file:") else {0, 1})

"""The leases of partitions, which save work and on which nothing depends (R24)."""

import asyncio

from cordwood.store import EventStore
from cordwood.testing.store.under_test import StoreUnderTest, batch, write

LONG = 60.0
SHORT = 1.0
"""Cassandra counts whole seconds."""


class Leases(StoreUnderTest):
    """`take_leases`, `leases` and `release_leases`."""

    async def until_ended(self, store: EventStore, topic: str) -> None:
        """Wait until the topic has no lease: one that has ended is not listed."""
        for _ in range(600):
            if not await store.leases(topic):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("a lease of one second has not ended after 30 s")

    async def test_the_first_owner_has_the_lease_until_it_ends(self, store: EventStore, topic: str) -> None:
        assert await store.take_leases(topic, [0, 1], "first", LONG) == {0, 1}
        assert await store.take_leases(topic, [1, 2], "second", LONG) == {2}
        owners = {partition: lease.owner for partition, lease in (await store.leases(topic)).items()}
        assert owners == {0: "first", 1: "first", 2: "second"}

    async def test_an_owner_renews_its_leases(self, store: EventStore, topic: str) -> None:
        assert await store.take_leases(topic, [0], "first", LONG) == {0}
        before = (await store.leases(topic))[0].until
        assert await store.take_leases(topic, [0], "first", 10 * LONG) == {0}
        assert (await store.leases(topic))[0].until > before

    async def test_a_lease_that_has_ended_goes_to_the_next_owner(self, store: EventStore, topic: str) -> None:
        assert await store.take_leases(topic, [0], "first", SHORT) == {0}
        await self.until_ended(store, topic)
        assert await store.take_leases(topic, [0], "second", LONG) == {0}
        assert (await store.leases(topic))[0].owner == "second"
        assert await store.take_leases(topic, [0], "first", LONG) == set()

    async def test_a_release_ends_the_leases_of_its_owner_alone(self, store: EventStore, topic: str) -> None:
        await store.take_leases(topic, [0, 1], "first", LONG)
        await store.take_leases(topic, [2], "second", LONG)
        for _ in range(2):  # the second time there is nothing to release
            await store.release_leases(topic, "first")
            assert set(await store.leases(topic)) == {2}
        assert await store.take_leases(topic, [0, 1, 2], "second", LONG) == {0, 1, 2}

    async def test_topics_have_leases_of_their_own(self, store: EventStore, topic: str) -> None:
        other = f"{topic}-2"
        assert await store.take_leases(topic, [0], "first", LONG) == {0}
        assert await store.take_leases(other, [0], "second", LONG) == {0}
        await store.release_leases(topic, "first")
        assert set(await store.leases(other)) == {0}

    async def test_one_of_several_owners_gets_a_free_lease(self, url: str, store: EventStore, topic: str) -> None:
        async with await self.open(url) as other:
            stores = [store, other] * 4
            taken = await asyncio.gather(
                *(each.take_leases(topic, [0], f"owner {at}", LONG) for at, each in enumerate(stores))
            )
            assert sorted(map(len, taken)) == [0] * 7 + [1]

    async def test_nothing_depends_on_a_lease(self, store: EventStore, topic: str) -> None:
        await store.take_leases(topic, [0], "first", LONG)
        await write(store, batch(topic, None, 4))
        assert await store.pointers(topic) == {0: 4}

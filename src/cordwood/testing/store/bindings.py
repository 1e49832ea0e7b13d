"""A topic is bound once (R23)."""

import asyncio

from cordwood.store import EventStore
from cordwood.testing.promises import promised
from cordwood.testing.store.under_test import StoreUnderTest, bound


class Bindings(StoreUnderTest):
    """`bind` and `binding`."""

    async def test_a_topic_that_nothing_has_bound_has_no_binding(self, store: EventStore, topic: str) -> None:
        assert await store.binding(f"{topic}-2") is None

    async def test_a_binding_is_read_back_with_all_its_fields(self, store: EventStore, topic: str) -> None:
        wanted = bound(topic_id="ö/1", single_writer=True, segment_size=2, replicator="scala", base_us=2**60)
        assert await store.bind(f"{topic}-2", wanted) == wanted
        assert await store.binding(f"{topic}-2") == wanted
        assert await store.binding(topic) == bound()

    async def test_the_first_binding_holds(self, store: EventStore, topic: str) -> None:
        assert await store.bind(topic, bound(topic_id="another", partitions=9)) == bound()
        assert await store.binding(topic) == bound()

    async def test_of_two_bindings_at_once_one_wins_for_both(self, url: str, store: EventStore, topic: str) -> None:
        async with await self.open(url) as other:
            for turn in range(10):
                name = f"{topic}-{turn}"
                wanted = [bound(base_us=number) for number in range(6)]
                stores = [store, other] * 3
                held = await asyncio.gather(*(each.bind(name, one) for each, one in zip(stores, wanted, strict=True)))
                assert held == [held[0]] * 6
                assert held[0] in wanted
                assert await store.binding(name) == await other.binding(name) == held[0]

    async def test_a_binding_is_replaced_only_by_those_that_know_it(
        self, url: str, store: EventStore, topic: str
    ) -> None:
        wanted = bound(replicator="scala", base_us=2**60)
        assert await store.rebind(topic, bound(base_us=1), wanted) == bound()
        assert await store.rebind(topic, bound(), wanted) == wanted
        async with await self.open(url) as other:
            assert await other.binding(topic) == wanted
            assert await other.rebind(topic, bound(), bound(base_us=5)) == wanted

    @promised("reopens")
    async def test_a_binding_is_there_for_the_next_store(self, url: str, store: EventStore, topic: str) -> None:
        await store.close()
        async with await self.open(url) as again:
            assert await again.bind(topic, bound(partitions=9)) == bound()

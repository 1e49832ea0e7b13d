"""Closing a store."""

import asyncio

import pytest

from cordwood.errors import Unavailable
from cordwood.store import EventStore, ScanPart
from cordwood.testing.store.under_test import StoreUnderTest, appended, batch, rows_of


class Closing(StoreUnderTest):
    """`close`."""

    async def test_a_closed_store_is_unavailable(self, store: EventStore, topic: str) -> None:
        await store.close()
        for call in (
            store.topics(),
            store.heads(topic, ["order-1"]),
            rows_of(store, topic, ScanPart(None, None)),
            store.write(batch(topic, None, 1)),
        ):
            with pytest.raises(Unavailable) as caught:
                await call
            assert caught.value.reason == "closed"

    async def test_a_second_close_has_no_effect(self, store: EventStore) -> None:
        await store.close()
        await store.close()

    async def test_closing_touches_no_other_store(self, url: str, store: EventStore, topic: str) -> None:
        async with await self.open(url):
            pass
        assert await store.write(batch(topic, None, 1, appended("order-1", 1, 1)))
        assert await store.pointers(topic) == {0: 1}

    async def test_calls_under_way_end_before_the_store_does(self, url: str, store: EventStore, topic: str) -> None:
        batches = [batch(topic, None, 1, appended(f"order-{number}", 1, 1), partition=number) for number in range(4)]
        writes = [asyncio.ensure_future(store.write(changes)) for changes in batches]
        reads = [asyncio.ensure_future(store.pointers(topic)) for _ in range(20)]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*writes) == [True] * 4
        await asyncio.gather(*reads)
        async with await self.open(url) as again:
            assert await again.pointers(topic) == dict.fromkeys(range(4), 1)

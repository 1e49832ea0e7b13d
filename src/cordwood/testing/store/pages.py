"""Event rows come in pages by bytes, in the order of their numbers."""

from typing import Any

import pytest

from cordwood.store import EventStore, KeyChanges
from cordwood.testing.store.under_test import (
    EVERYTHING,
    StoreUnderTest,
    appended,
    batch,
    event,
    events,
    events_of,
    head,
    numbers,
    pages_of,
    write,
)

PAYLOADS: list[dict[str, Any]] = [
    {"payload_type": "text", "payload_txt": "x" * 1000},
    {"payload_type": "text", "payload_txt": "\u20ac" * 334},  # 3 bytes each
    {"payload_type": "binary", "payload_txt": None, "payload_bin": bytes(1000)},
    {"payload_type": None, "payload_txt": None, "metadata": "x" * 1000},
    {"payload_type": None, "payload_txt": None, "headers": {"a": "x" * 1000}},
    {"payload_type": None, "payload_txt": None, "tags": ("x" * 1000,)},
]


class Pages(StoreUnderTest):
    """`events`."""

    async def test_all_rows_fit_on_one_page(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 35, appended("order-1", 1, 35)))
        assert await pages_of(store, topic, "order-1") == [events(1, 35)]

    @pytest.mark.parametrize("columns", PAYLOADS, ids=["text", "wide", "binary", "metadata", "headers", "tags"])
    async def test_a_page_ends_where_its_bytes_do(self, store: EventStore, topic: str, columns: dict[str, Any]) -> None:
        rows = events(1, 40, **columns)
        await write(store, batch(topic, None, 40, KeyChanges("order-1", head(40), rows)))
        pages = await pages_of(store, topic, "order-1", bytes_max=8192)
        assert [row for page in pages for row in page] == rows
        # A row of 1,000 bytes has some more around it.
        sizes = [len(page) for page in pages]
        assert max(sizes) <= 8, sizes
        assert min(sizes[:-1]) >= 4, sizes

    async def test_a_page_has_at_least_one_row(self, store: EventStore, topic: str) -> None:
        rows = events(1, 5, payload_txt="x" * 10_000)
        await write(store, batch(topic, None, 5, KeyChanges("order-1", head(5), rows)))
        assert await pages_of(store, topic, "order-1", bytes_max=1) == [[row] for row in rows]

    async def test_a_large_row_among_small_ones_does_not_swell_its_page(self, store: EventStore, topic: str) -> None:
        rows = [event(number, payload_txt="x" * (10 if number < 20 else 100_000)) for number in range(1, 31)]
        await write(store, batch(topic, None, 30, KeyChanges("order-1", head(30), rows)))
        pages = await pages_of(store, topic, "order-1", bytes_max=120_000)
        assert [row for page in pages for row in page] == rows
        for page in pages:
            assert sum(len(row.payload_txt or "") for row in page) <= 120_000

    async def test_rows_with_one_number_are_on_one_page(self, store: EventStore, topic: str) -> None:
        doubled = [event(number, offset) for number in range(1, 6) for offset in (number, number + 10, number + 20)]
        await write(store, batch(topic, None, 30, KeyChanges("order-1", head(5), doubled)))
        pages = await pages_of(store, topic, "order-1", bytes_max=1)
        assert [numbers(page) for page in pages] == [[number] * 3 for number in range(1, 6)]

    async def test_start_and_stop_bound_the_rows(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 35, appended("order-1", 1, 35)))
        for start, stop in ((1, 2), (7, 23), (10, 11), (11, 12), (30, 36), (35, EVERYTHING), (1, EVERYTHING)):
            for bytes_max in (1, 1000, 1 << 20):
                found = await events_of(store, topic, "order-1", start, stop, bytes_max)
                assert numbers(found) == list(range(start, min(stop, 36))), (start, stop, bytes_max)

    async def test_an_empty_range_has_no_rows(self, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 35, appended("order-1", 1, 35)))
        for start, stop in ((36, 50), (5, 5), (9, 5), (1, 1)):
            assert await events_of(store, topic, "order-1", start, stop) == []

    async def test_gaps_over_empty_segments_are_passed(self, store: EventStore, topic: str) -> None:
        rows = [event(number) for number in (5, 6, 47, 81, 82, 83)]
        await write(store, batch(topic, None, 83, KeyChanges("order-1", head(83), rows)))
        for bytes_max in (1, 500, 1 << 20):
            assert await events_of(store, topic, "order-1", bytes_max=bytes_max) == rows
        assert numbers(await events_of(store, topic, "order-1", 7, 82)) == [47, 81]

    async def test_rows_after_a_million_deleted_ones_are_found(self, store: EventStore, topic: str) -> None:
        last = 1_000_005
        row = head(last, segment_size=10_000, delete_to=last - 5)
        await write(store, batch(topic, None, last, KeyChanges("order-1", row, events(last - 4, last), reached=last)))
        assert numbers(await events_of(store, topic, "order-1", last - 4)) == list(range(last - 4, last + 1))

    async def test_a_journal_without_rows_has_an_empty_page(self, store: EventStore, topic: str) -> None:
        page = await store.events(topic, "order-1", head(5), 1, 6)
        assert (list(page.rows), page.next) == ([], None)

"""Rows and head rows are read back as they were written."""

from datetime import date
from typing import Any

import pytest

from cordwood.store import EventStore, KeyChanges
from cordwood.store.rows import Place
from cordwood.testing.promises import promised
from cordwood.testing.store.under_test import (
    BASE_MS,
    EVERYTHING,
    LIFE,
    StoreUnderTest,
    appended,
    batch,
    event,
    events,
    events_of,
    head,
    head_of,
    write,
)

IDS = ["order-1", "Order-1", "order-10", "Ördnung", "ß", "a\0b", "a", "%", "_", "'; --", "/", " ", "\U0001f332" * 256]


class Journals(StoreUnderTest):
    """Writing and reading back."""

    @pytest.mark.parametrize(
        "columns",
        [
            {"payload_type": "text", "payload_txt": "hi"},
            {"payload_type": "text", "payload_txt": ""},
            {"payload_type": "text", "payload_txt": "Grüße \U0001f332 \0 end"},
            {"payload_type": "json", "payload_txt": '{"n":1.000000000000000000001}'},
            {"payload_type": "json", "payload_txt": "null"},
            {"payload_type": "binary", "payload_txt": None, "payload_bin": b"\x00\xff\x10"},
            {"payload_type": "binary", "payload_txt": None, "payload_bin": b""},
            {"payload_type": None, "payload_txt": None},
            {"tags": ("paid",)},
            {"tags": ("a", "ö", '"')},
            {"headers": {"trace": "1", "ö": '"'}},
            {"metadata": '{"header":{},"payload":{"data":{"ö":[1,null]}},"id":"command-42"}'},
            {"origin": None, "version": None, "life": None, "metadata": None},
        ],
        ids=lambda columns: "-".join(columns),
    )
    async def test_a_row_is_read_back_with_all_its_columns(
        self, store: EventStore, topic: str, columns: dict[str, Any]
    ) -> None:
        row = event(1, **columns)
        await write(store, batch(topic, None, 1, KeyChanges("order-1", head(1), [row])))
        (found,) = await events_of(store, topic, "order-1")
        # Tags are a set.
        assert sorted(found.tags or ()) == sorted(row.tags or ())
        for name in row.__struct_fields__:
            if name != "tags":
                assert getattr(found, name) == getattr(row, name), name

    async def test_empty_tags_and_headers_are_stored_as_none(self, store: EventStore, topic: str) -> None:
        rows = [event(1, tags=(), headers={}), event(2, tags=(), headers={"a": "b"}), event(3, tags=("a",), headers={})]
        await write(store, batch(topic, None, 3, KeyChanges("order-1", head(3), rows)))
        found = await events_of(store, topic, "order-1")
        assert [(row.tags, row.headers) for row in found] == [(None, None), (None, {"a": "b"}), (("a",), None)]

    @pytest.mark.parametrize(
        "columns",
        [
            {},
            {"delete_to": 2},
            {"expire_after_ns": 129_600_000_000_000, "expire_on": date(2024, 2, 29)},
            {"origin": "host"},
            {"life": None, "delete_to": 3},
            {"closed": Place(0, 3)},
            {"created": -86_400_001, "updated": 0},  # before 1970
        ],
        ids=lambda columns: "-".join(columns) or "plain",
    )
    async def test_a_head_row_is_read_back_with_all_its_columns(
        self, store: EventStore, topic: str, columns: dict[str, Any]
    ) -> None:
        row = head(3, **columns)
        await write(store, batch(topic, None, 3, KeyChanges("order-1", row, events(1, 3))))
        assert await head_of(store, topic, "order-1") == row

    async def test_a_journal_that_was_never_written_has_no_head_row(self, store: EventStore, topic: str) -> None:
        assert await store.heads(topic, ["order-1"]) == {}
        assert await store.heads(topic, []) == {}

    async def test_head_rows_of_many_ids_come_in_one_call(self, store: EventStore, topic: str) -> None:
        ids = [f"order-{number}" for number in range(1201)]
        await write(store, batch(topic, None, 1, *(appended(id, 1, 1) for id in ids)))
        found = await store.heads(topic, ["missing", *ids, ids[0]])
        assert found == {id: head(1) for id in ids}

    async def test_ids_of_any_characters_are_kept_apart(self, store: EventStore, topic: str) -> None:
        keys = [KeyChanges(id, head(1, offset), [event(1, offset, payload_txt=id)]) for offset, id in enumerate(IDS)]
        await write(store, batch(topic, None, len(IDS), *keys))
        assert await store.heads(topic, IDS) == {key.id: key.head for key in keys}
        for id in IDS:
            assert [row.payload_txt for row in await events_of(store, topic, id)] == [id]

    async def test_numbers_of_63_bits_are_kept(self, store: EventStore, topic: str) -> None:
        row = event(EVERYTHING, EVERYTHING, timestamp=BASE_MS)
        top = head(EVERYTHING, EVERYTHING, segment_size=2**31 - 1, delete_to=EVERYTHING - 1)
        await write(store, batch(topic, None, EVERYTHING, KeyChanges("order-1", top, [row])))
        assert await store.pointers(topic) == {0: EVERYTHING}
        assert await head_of(store, topic, "order-1") == top
        page = await store.events(topic, "order-1", top, EVERYTHING, EVERYTHING + 1)
        assert (page.rows, page.next) == ([row], None)

    async def test_two_rows_with_one_number_are_both_kept(self, store: EventStore, topic: str) -> None:
        # R25: a foreign replicator may have stored the loser of a race.
        await write(store, batch(topic, None, 1, appended("order-1", 1, 1)))
        await write(store, batch(topic, 1, 2, KeyChanges("order-1", head(1, 2), [event(1, 2, life=None)])))
        assert [(row.offset, row.life) for row in await events_of(store, topic, "order-1")] == [(1, LIFE), (2, None)]

    @promised("reopens")
    async def test_rows_are_there_for_the_next_store(self, url: str, store: EventStore, topic: str) -> None:
        await write(store, batch(topic, None, 3, appended("order-1", 1, 3)))
        await store.close()
        async with await self.open(url) as again:
            assert await again.pointers(topic) == {0: 3}
            assert await head_of(again, topic, "order-1") == head(3)
            assert await events_of(again, topic, "order-1") == events(1, 3)

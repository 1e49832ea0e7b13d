"""Dead letters, and skipping them (R42, R43)."""

from typing import Any

import msgspec
import pytest

from cordwood.errors import NotFound
from cordwood.store import DeadLetter, EventStore, KeyChanges
from cordwood.testing.promises import promised
from cordwood.testing.store.under_test import (
    StoreUnderTest,
    appended,
    batch,
    events,
    events_of,
    head,
    head_of,
    letter,
    write,
)

NOW = 1_800_000_000_000


class DeadLetters(StoreUnderTest):
    """`dead_letters` and `skip`."""

    async def close_key(self, store: EventStore, topic: str, *offsets: int, last: int = 5) -> None:
        """A journal of some events, closed by dead letters at these offsets."""
        letters = [letter(topic, offset) for offset in offsets]
        changes = KeyChanges("order-1", head(last, closed=letters[0].place), events(1, last))
        await write(store, batch(topic, None, offsets[-1], changes, dead_letters=letters))

    @pytest.mark.parametrize(
        "columns",
        [
            {},
            {"key": None, "id": None},
            {"key": b"\xff", "header": b"\x00", "value": b"\xfe" * 1000, "id": None},
            {"through": 40, "id": None, "key": None, "header": None, "reason": "lost, and accepted"},
            {"value": b""},
            {"timestamp": -1},
        ],
        ids=lambda columns: "-".join(columns) or "plain",
    )
    async def test_a_dead_letter_is_read_back_with_all_its_columns(
        self, store: EventStore, topic: str, columns: dict[str, Any]
    ) -> None:
        dead = letter(topic, 17, **columns)
        await write(store, batch(topic, None, 40, dead_letters=[dead]))
        assert await store.dead_letters(topic) == [dead]

    async def test_dead_letters_come_by_partition_and_offset(self, store: EventStore, topic: str) -> None:
        letters = [letter(topic, offset) for offset in (3, 7, 20)]
        other = DeadLetter(topic, 2, 5, id="order-2")
        await write(store, batch(topic, None, 5, partition=2, dead_letters=[other]))
        await write(store, batch(topic, None, 20, dead_letters=letters[::-1]))
        assert await store.dead_letters(topic) == [*letters, other]

    async def test_a_skip_opens_the_key(self, store: EventStore, topic: str) -> None:
        await self.close_key(store, topic, 7)
        skipped = await store.skip(topic, 0, 7, NOW)
        assert skipped == msgspec.structs.replace(letter(topic, 7), skipped=NOW)
        assert await store.dead_letters(topic) == [skipped]
        assert await head_of(store, topic, "order-1") == head(5)
        assert await events_of(store, topic, "order-1") == events(1, 5)

    async def test_the_next_dead_letter_keeps_the_key_closed(self, store: EventStore, topic: str) -> None:
        await self.close_key(store, topic, 7, 9, 11)
        for offset, closed in ((7, 9), (9, 11)):
            await store.skip(topic, 0, offset, NOW)
            assert await head_of(store, topic, "order-1") == head(5, closed=letter(topic, closed).place)
        await store.skip(topic, 0, 11, NOW)
        assert await head_of(store, topic, "order-1") == head(5)

    async def test_dead_letters_may_be_skipped_in_any_order(self, store: EventStore, topic: str) -> None:
        await self.close_key(store, topic, 7, 9, 11)
        for offset in (9, 11):
            await store.skip(topic, 0, offset, NOW)
            assert await head_of(store, topic, "order-1") == head(5, closed=letter(topic, 7).place)
        await store.skip(topic, 0, 7, NOW)
        assert await head_of(store, topic, "order-1") == head(5)

    async def test_a_head_row_that_only_closed_its_key_goes_with_the_skip(self, store: EventStore, topic: str) -> None:
        row = head(0, 1, life=None, closed=letter(topic, 1).place)
        await write(store, batch(topic, None, 1, KeyChanges("order-1", row), dead_letters=[letter(topic, 1)]))
        await store.skip(topic, 0, 1, NOW)
        assert await head_of(store, topic, "order-1") is None

    async def test_a_second_skip_has_no_effect(self, store: EventStore, topic: str) -> None:
        await self.close_key(store, topic, 7)
        first = await store.skip(topic, 0, 7, NOW)
        assert await store.skip(topic, 0, 7, NOW + 1) == first
        assert await store.dead_letters(topic) == [first]

    async def test_a_skip_without_a_dead_letter_is_not_found(self, store: EventStore, topic: str) -> None:
        await self.close_key(store, topic, 7)
        for partition, offset in ((0, 6), (1, 7)):
            with pytest.raises(NotFound, match=str(offset)) as caught:
                await store.skip(topic, partition, offset, NOW)
            assert caught.value.outcome == "not_written"
        assert await head_of(store, topic, "order-1") == head(5, closed=letter(topic, 7).place)

    async def test_a_dead_letter_without_a_key_can_be_skipped(self, store: EventStore, topic: str) -> None:
        dead = letter(topic, 3, id=None, key=None)
        await write(store, batch(topic, None, 3, appended("order-1", 1, 1), dead_letters=[dead]))
        assert (await store.skip(topic, 0, 3, NOW)).skipped == NOW
        assert await head_of(store, topic, "order-1") == head(1)

    @promised("guarded")
    async def test_a_batch_from_before_the_skip_does_not_close_the_key(self, store: EventStore, topic: str) -> None:
        await self.close_key(store, topic, 7)
        folded = KeyChanges("order-1", head(6, 8, closed=letter(topic, 7).place), [events(6, 6)[0]])
        await store.skip(topic, 0, 7, NOW)
        await write(store, batch(topic, 7, 8, folded))
        assert await head_of(store, topic, "order-1") == head(6, 8)

    @promised("guarded")
    async def test_a_batch_from_before_the_skip_leaves_no_empty_head_row(self, store: EventStore, topic: str) -> None:
        row = head(0, 1, life=None, closed=letter(topic, 1).place)
        await write(store, batch(topic, None, 1, KeyChanges("order-1", row), dead_letters=[letter(topic, 1)]))
        await store.skip(topic, 0, 1, NOW)
        await write(store, batch(topic, 1, 2, KeyChanges("order-1", row)))
        assert await head_of(store, topic, "order-1") is None

"""Orders as journals: commands that conflict, a recovery from a snapshot, and a purge. It may run again and again.

python examples/orders.py [FOLDER]
"""

import asyncio
import json
import sys

import cordwood
from cordwood import Conflict, Event, Journal, Position


class Order:
    """The state of an order, which follows from its events."""

    def __init__(self, snapshot: bytes | None = None) -> None:
        self.items: dict[str, int] = {} if snapshot is None else json.loads(snapshot)

    def apply(self, event: dict[str, str]) -> None:
        self.items[event["item"]] = self.items.get(event["item"], 0) + 1

    def snapshot(self) -> bytes:
        return json.dumps(self.items).encode()


async def recover(journal: Journal, key: str) -> tuple[Order, Position | None]:
    """The order as it is now, and the place of its journal."""
    async with journal.recover(key) as recovered:
        order = Order(None if recovered.snapshot is None else recovered.snapshot.payload)
        async for event in recovered:
            order.apply(event.payload)
    return order, recovered.position


async def add(journal: Journal, key: str, item: str, command: str) -> int:
    """Add an item. If another writer was first, look at the order again, and decide again."""
    while True:
        order, position = await recover(journal, key)
        if order.items.get(item, 0) >= 2:
            raise ValueError(f"{key} has two {item} already")
        try:
            done = await journal.append(key, [Event.json({"item": item})], expected=position or 0, id=command)
        except Conflict:
            continue
        return done.seq_nrs[0]


async def main(folder: str) -> None:
    async with cordwood.connect(f"file:{folder}") as cw, cw.journal("orders") as journal:
        before, _ = await recover(journal, "order-1")
        print(f"order-1 before: {dict(sorted(before.items.items()))}")

        # Three commands at once decide on the same order: the log's order is the referee.
        items = ("tea", "milk", "sugar")
        numbers = await asyncio.gather(*(add(journal, "order-1", item, f"add-{item}") for item in items))
        print(f"{len(numbers)} events, each with a number of its own: {len(set(numbers)) == len(numbers)}")

        order, position = await recover(journal, "order-1")
        assert position is not None
        print(f"order-1 now: {dict(sorted(order.items.items()))}, at {position.seq_nr}")

        # The state so far is worth more than the events before it.
        await journal.save_snapshot("order-1", position.seq_nr, order.snapshot())
        await journal.delete("order-1", through=position.seq_nr)

        if max(order.items.values()) == 2:
            await journal.purge("order-1", wait=True)
            print("order-1 is complete, and purged")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "./example-data"))

"""A region as a dictionary: what it must hold, whatever happened in between."""

from dataclasses import dataclass, field
from typing import Literal

from cordwood import CordwoodError, Region
from tests.support.wal.region_contents import by_table


@dataclass
class Model:
    """The acked changes, and those that are undecided because their call failed or ended early. Payloads all differ."""

    logs: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """All logs that were acked, deleted ones too, by table and number."""
    deleted: dict[int, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    maybe_written: set[bytes] = field(default_factory=set)
    maybe_deleted: dict[int, int] = field(default_factory=dict)
    _written: int = 0

    def payloads(self, count: int) -> list[bytes]:
        self._written += count
        return [b"%d" % (self._written - n) for n in range(count)]

    def last(self, table: int) -> int:
        return max(self.logs.get(table, {}), default=0)

    async def write(self, region: Region, table: int, count: int) -> None:
        payloads = self.payloads(count)
        self.maybe_written.update(payloads)
        try:
            numbers = await region.write(table, payloads)
        except CordwoodError as error:
            if error.outcome == "not_written":
                self.maybe_written.difference_update(payloads)
            raise
        assert numbers.start > self.last(table), "a number came back"
        self.logs.setdefault(table, {}).update(zip(numbers, payloads, strict=True))
        self.maybe_written.difference_update(payloads)
        self.dropped.discard(table)

    async def mark(self, region: Region, table: int, through: int) -> None:
        await self._delete(region, table, through, "mark")

    async def drop(self, region: Region, table: int) -> None:
        await self._delete(region, table, self.last(table), "drop")

    async def _delete(self, region: Region, table: int, through: int, how: Literal["mark", "drop"]) -> None:
        before = self.maybe_deleted.get(table, 0)
        self.maybe_deleted[table] = max(before, through)
        try:
            await (region.drop_table(table) if how == "drop" else region.mark_deleted(table, through=through))
        except CordwoodError as error:
            if error.outcome == "not_written":
                self.maybe_deleted[table] = before
            raise
        self.maybe_deleted[table] = before
        if table not in self.dropped and table in self.logs:
            self.deleted[table] = max(self.deleted.get(table, 0), through)
            if how == "drop":
                self.dropped.add(table)

    async def check(self, region: Region) -> None:
        found = await by_table(region)
        tables = region.tables()
        for table in self.logs.keys() | found.keys():
            logs = self.logs.get(table, {})
            live = found.get(table, {})
            gone = max(self.deleted.get(table, 0), self.maybe_deleted.get(table, 0))
            for number, payload in logs.items():
                if number > gone:
                    assert live.get(number) == payload, f"table {table}: {number} was acked and is lost"
                if number <= self.deleted.get(table, 0):
                    assert number not in live, f"table {table}: {number} was deleted and is back"
            for number, payload in live.items():
                known = logs.get(number)
                assert known == payload or (known is None and payload in self.maybe_written), f"table {table}: {number}"
            if table in tables:
                assert tables[table].next_sequence > max(self.last(table), max(live, default=0))
        everything = [payload for logs in found.values() for payload in logs.values()]
        assert len(everything) == len(set(everything)), "something is there twice"
        sure = {table for table in self.logs if table not in self.dropped and not self.maybe_deleted.get(table)}
        assert sure <= tables.keys(), "a table is missing"
        assert self.maybe_written or not self.dropped & tables.keys(), "a dropped table is back"
        assert not region.stats().lost

    async def settle(self, region: Region) -> None:
        """After a crash: undecided changes are decided now, and stay so."""
        await self.check(region)
        for table, logs in (await by_table(region)).items():
            self.logs.setdefault(table, {}).update(logs)
            self.dropped.discard(table)
        tables = region.tables()
        for table in self.logs:
            if table in tables:
                self.deleted[table] = max(self.deleted.get(table, 0), tables[table].deleted_through)
                self.dropped.discard(table)
            else:
                self.deleted[table] = self.last(table)
                self.dropped.add(table)
        self.maybe_written.clear()
        self.maybe_deleted.clear()

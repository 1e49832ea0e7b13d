"""The writes to a region and their outcomes: the truth that a replay must agree with."""

from dataclasses import dataclass, field

from cordwood import CordwoodError, Region
from tests.support.wal.region_contents import by_table


@dataclass
class History:
    """Payloads are all different, so each identifies its write."""

    acked: dict[tuple[int, int], bytes] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)

    async def write(self, region: Region, table: int, payloads: list[bytes]) -> CordwoodError | None:
        try:
            numbers = await region.write(table, payloads)
        except CordwoodError as error:
            {"not_written": self.refused, "unknown": self.unknown}[str(error.outcome)].update(payloads)
            return error
        for number, payload in zip(numbers, payloads, strict=True):
            assert self.acked.setdefault((table, number), payload) == payload, "a number is given out twice"
        return None

    async def check(self, region: Region) -> None:
        tables = await by_table(region)
        found = {(table, number): payload for table, entries in tables.items() for number, payload in entries.items()}
        for place, payload in self.acked.items():
            assert found.get(place) == payload, f"acked and lost: {place}"
        payloads = list(found.values())
        assert len(payloads) == len(set(payloads)), "something is there twice"
        assert not self.refused & set(payloads), "refused, but there"
        assert set(payloads) <= {*self.acked.values(), *self.unknown}
        for table, meta in region.tables().items():
            assert meta.next_sequence == max(tables[table]) + 1

"""A region as HoraeDB writes it: one record a log, and a snapshot of everything after a mark."""

from collections.abc import Sequence
from struct import pack

from cordwood import Batch, Client


def log_key(region: int, table: int, sequence: int, *, namespace: int = 1, version: int = 0) -> bytes:
    return pack(">BQQQB", namespace, region, table, sequence, version)


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def entry(table: int, next_sequence: int, marked: int, high_watermark: int, oldest: int | None) -> bytes:
    """A `TableMetaData` message; as proto3 has it, a field that is 0 is left out, but for the optional one."""
    fields = zip(range(1, 5), (table, next_sequence, marked, high_watermark), strict=True)
    data = b"".join(varint(field << 3) + varint(number) for field, number in fields if number)
    return data if oldest is None else data + varint(5 << 3) + varint(oldest)


def snapshot(entries: Sequence[bytes]) -> bytes:
    return b"\0" + b"".join(varint(2 << 3 | 2) + varint(len(each)) + each for each in entries)


class HoraeDb:
    """Writes one region."""

    def __init__(self, cw: Client, name: str, region: int) -> None:
        self.region = region
        self.topics = f"{name}_data_{region}", f"{name}_meta_{region}"
        self.data, self.meta = (cw.log(topic) for topic in self.topics)
        self._cw = cw

    async def create(self) -> None:
        for topic in self.topics:
            await self._cw.create_topic(topic)

    async def write(self, table: int, first: int, payloads: Sequence[bytes]) -> Sequence[int]:
        keys = [log_key(self.region, table, first + place) for place in range(len(payloads))]
        return await self.data.append(Batch.of([b"\0" + payload for payload in payloads], keys=keys))

    async def snapshot(self, *entries: bytes) -> None:
        """Append it, and trim the records before it: as the original does."""
        key = pack(">BBQ", 0, 0, self.region)
        (offset,) = await self.meta.append(Batch.of([snapshot(entries)], keys=[key]))
        await self.meta.trim(offset)

"""A program of the Scala library kafka-journal, as far as the log shows it: its records, and its way to read them.

It shares no code with `cordwood.journal`, so that a mistake there does not repeat itself here.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cordwood import Client, StoredRecord
from cordwood.log.partitioning import partition_of
from tests.support.journal.journals import TOPIC, put


@dataclass
class HeadInfo:
    """What the library remembers of a key while it walks its records."""

    kind: str = "empty"
    offset: int = 0
    seq_nr: int = 0
    delete_to: int | None = None

    def add(self, action: str, body: dict[str, Any], offset: int) -> None:
        if action == "purge":
            self.kind, self.delete_to = "purge", None
        elif action == "delete":
            to = body["to"]
            if self.kind == "append":
                self.delete_to = min(max(self.delete_to or 0, to), self.seq_nr)
            elif self.kind == "delete":
                self.delete_to = max(self.delete_to or 0, to)
            else:
                self.kind, self.delete_to = "delete", to
        elif action == "append":
            if self.kind == "delete":
                first = body["range"]["from"]
                self.delete_to = min(first - 1, self.delete_to or 0) or None if first > 1 else None
            if self.kind != "append":
                self.kind, self.offset = "append", offset
            self.seq_nr = body["range"]["to"]


class ScalaPeer:
    """Writes and reads one topic as the library does. It has no store: all that it reads is in the log."""

    def __init__(self, client: Client, topic: str = TOPIC, origin: str = "scala-host") -> None:
        self._client = client
        self._topic = topic
        self._about = {"origin": origin, "version": "10.1.0"}

    async def append(
        self,
        key: str,
        numbers: Sequence[int],
        *,
        expire_after: str | None = None,
        timestamp: int | None = None,
        text: str = "scala",
    ) -> tuple[int, int]:
        """Append events with these numbers, whose payloads are `text` and the number; its partition and offset."""
        body: dict[str, Any] = {"range": {"from": numbers[0], "to": numbers[-1]}, **self._about}
        body |= {"payloadType": "json", "metadata": {}}
        events = [{"seqNr": n, "tags": [], "payloadType": "text", "payload": f"{text} {n}"} for n in numbers]
        metadata = {} if expire_after is None else {"expireAfter": expire_after}
        value = _json({"events": events, "metadata": metadata})
        return await self._put(key, {"append": body}, value, timestamp)

    async def delete(self, key: str, to: int) -> tuple[int, int]:
        return await self._put(key, {"delete": {"to": to, **self._about}})

    async def purge(self, key: str) -> tuple[int, int]:
        return await self._put(key, {"purge": self._about})

    async def mark(self, key: str) -> tuple[int, int]:
        return await self._put(key, {"mark": {"id": "00000000-0000-4000-8000-000000000000", **self._about}})

    async def _put(
        self, key: str, action: dict[str, Any], value: bytes | None = None, timestamp: int | None = None
    ) -> tuple[int, int]:
        return await put(self._client, key.encode(), _json(action), value, topic=self._topic, timestamp=timestamp)

    async def read(self, key: str) -> dict[int, Any]:
        """The payloads by number, as the library recovers them from the log."""
        records = await self._records(key)
        head = _head_of(records)
        if head.kind != "append":
            return {}
        found: dict[int, Any] = {}
        following = (head.delete_to or 0) + 1
        for offset, action, _, record in records:
            if action != "append" or offset < head.offset:
                continue
            for number, payload in _events_of(record):
                if number >= following:
                    found[number] = payload
                    following = number + 1
        return found

    async def pointer(self, key: str) -> int | None:
        """The last number, as the library finds it in the log."""
        head = _head_of(await self._records(key))
        return head.seq_nr if head.kind == "append" else None

    async def _records(self, key: str) -> list[tuple[int, str, dict[str, Any], StoredRecord]]:
        info = await self._client.topic(self._topic)
        log = self._client.log(self._topic, partition_of(key.encode(), info.partitions))
        found = []
        async with log.read() as reader:
            async for batch in reader:
                for record in batch:
                    headers = dict(reversed(list(record.headers)))
                    if record.key != key.encode() or "journal.action" not in headers:
                        continue
                    action, body = next(iter(json.loads(headers["journal.action"] or b"").items()))
                    found.append((record.offset, action, body, record))
        return found


def _head_of(records: Sequence[tuple[int, str, dict[str, Any], StoredRecord]]) -> HeadInfo:
    head = HeadInfo()
    for offset, action, body, _ in records:
        head.add(action, body, offset)
    return head


def _events_of(record: StoredRecord) -> list[tuple[int, Any]]:
    value = record.value or b""
    if value[:1] == b"\x01":
        return _binary_events(value)
    decoded = json.loads(value)
    assert set(decoded) == {"events", "metadata"}
    assert all({"seqNr", "tags"} <= set(event) for event in decoded["events"])
    return [(event["seqNr"], event.get("payload")) for event in decoded["events"]]


def _binary_events(value: bytes) -> list[tuple[int, Any]]:
    def number(at: int, size: int) -> int:
        return int.from_bytes(value[at : at + size], signed=True)

    events: list[tuple[int, Any]] = []
    at = 5
    for _ in range(number(1, 4)):
        size = number(at, 4)
        seq_nr, tags = number(at + 4, 8), number(at + 12, 4)
        kind_at = at + 16 + tags
        body = value[kind_at + 5 : kind_at + 5 + number(kind_at + 1, 4)]
        kind = value[kind_at]
        payload = [None, base64.b64encode(body).decode(), None, None][kind] if kind < 2 else body.decode()
        events.append((seq_nr, json.loads(payload) if kind == 2 and payload is not None else payload))
        at += 4 + size
    json.loads(value[at:])  # the metadata
    return events


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

"""The note of a copy under way: a topic next to the target, with one partition, on the target's engine.

A copy that broke off left it. Only then is a target that exists the copy's own. The last record counts.
"""

from collections.abc import Mapping

import msgspec

from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, NotFound
from cordwood.log.topics import checked_topic_name
from cordwood.records import Batch

_SUFFIX = ".copying"


class CopyNote(msgspec.Struct, frozen=True):
    """What is copied, and the topic that it goes to, once that is created."""

    source: str
    source_id: str
    ends: Mapping[int, int]
    partitions: int
    target_id: str | None = None
    version: int = 1


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CopyNote).decode


def note_topic(target: str) -> str:
    """The name of the note."""
    try:
        return checked_topic_name(target + _SUFFIX)
    except InvalidInput as error:
        raise InvalidInput(f"topic {target!r}: a copy keeps its note in {target + _SUFFIX!r}: {error}") from error


async def read_note(client: Client, target: str) -> CopyNote | None:
    """The note of a copy that broke off; None if there is none, or nothing is in it yet."""
    name = note_topic(target)
    try:
        await client.topic(name)
    except NotFound:
        return None
    found = None
    async with client.log(name).read() as reader:
        async for batch in reader:
            for value in batch.values:
                try:
                    found = _decode(value or b"")
                except msgspec.DecodeError as error:
                    raise Conflict(f"topic {name!r} is no note of a copy: delete it, or name another target") from error
    return found


async def write_note(client: Client, target: str, note: CopyNote) -> None:
    """Keep the note."""
    name = note_topic(target)
    await client.create_topic(name, partitions=1, exist_ok=True)
    await client.log(name).append(Batch.of([_encode(note)]))


async def delete_note(client: Client, target: str) -> None:
    """The copy is complete."""
    await client.delete_topic(note_topic(target))

"""Follow a log beside the process that writes it, and keep one's position over restarts.

    python examples/follow.py FOLDER TOPIC POSITION_FILE [COUNT]

Prints each record, and notes the offset that follows in POSITION_FILE, with the id of the topic: started again, it
continues there. It ends after COUNT records, or with Ctrl-C.

An offset alone is no position. A topic that was deleted and created again has the same offsets for other records, which
`topic_id=` tells. After a power cut a reader may for a moment see less than before: `follow="wait"` waits for the rest.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import NamedTuple

import cordwood


class Position(NamedTuple):
    topic_id: str
    offset: int | None
    """The next record; None: the first that is kept."""


def noted(file: Path) -> Position | None:
    return Position(**json.loads(file.read_text())) if file.exists() else None


def note(file: Path, position: Position) -> None:
    # Replaced whole: a crash while it is written leaves the old one.
    new = file.with_suffix(".new")
    new.write_text(json.dumps(position._asdict()))
    new.replace(file)


async def follow(folder: str, topic: str, file: Path, count: int) -> None:
    async with cordwood.connect(f"file:{folder}", read_only=True) as cw:
        position = noted(file) or Position((await cw.topic(topic)).id, None)
        while count > 0:
            try:
                async with cw.log(topic).read(position.offset, follow="wait", topic_id=position.topic_id) as reader:
                    async for batch in reader:
                        wanted = batch[:count]
                        for record in wanted:
                            print(record.offset, record.value, flush=True)
                        position = position._replace(offset=wanted.offsets[-1] + 1)
                        # After the work, not before: a crash in between repeats a record, and loses none.
                        note(file, position)
                        count -= len(wanted)
                        if not count:
                            return
            except cordwood.Trimmed as gone:
                lost = f"offsets {position.offset} to {gone.start - 1}"
                print(f"{lost} were trimmed before they were seen", file=sys.stderr)
                position = position._replace(offset=gone.start)
            except cordwood.Conflict:
                print(f"topic {topic!r} was created again: reading the new one from its start", file=sys.stderr)
                position = Position((await cw.topic(topic)).id, None)


if __name__ == "__main__":
    try:
        asyncio.run(
            follow(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else sys.maxsize)
        )
    except KeyboardInterrupt:
        pass

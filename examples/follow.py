"""Follow a log beside the process that writes it, and keep one's place over restarts.

    python examples/follow.py FOLDER TOPIC PLACE_FILE [COUNT]

Prints each record, and notes the offset that follows in PLACE_FILE: started again, it goes on from there. It ends after
COUNT records, or with Ctrl-C.
"""

import asyncio
import sys
from pathlib import Path

import cordwood


def noted(place: Path) -> int | None:
    return int(place.read_text()) if place.exists() else None


def note(place: Path, offset: int) -> None:
    # Replaced whole: a crash while it is written leaves the old one.
    new = place.with_suffix(".new")
    new.write_text(str(offset))
    new.replace(place)


async def follow(folder: str, topic: str, place: Path, count: int) -> None:
    start = noted(place)
    async with cordwood.connect(f"file:{folder}", read_only=True) as cw:
        while count > 0:
            try:
                async with cw.log(topic).read(start=start, follow=True) as reader:
                    async for batch in reader:
                        wanted = batch[:count]
                        for record in wanted:
                            print(record.offset, record.value, flush=True)
                        start = wanted.offsets[-1] + 1
                        # After the work, not before: a crash in between repeats a record, and loses none.
                        note(place, start)
                        count -= len(wanted)
                        if not count:
                            return
            except cordwood.Trimmed as gone:
                print(f"offsets {start} to {gone.start - 1} were trimmed before they were seen", file=sys.stderr)
                start = gone.start


if __name__ == "__main__":
    try:
        asyncio.run(
            follow(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else sys.maxsize)
        )
    except KeyboardInterrupt:
        pass

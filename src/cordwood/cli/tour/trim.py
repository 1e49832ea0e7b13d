"""Chapter: trimming old records, and the disk space that this frees."""

from cordwood.cli.output import size_of
from cordwood.errors import CordwoodError, Trimmed

from .stage import TOPIC, Facts, Stage, disk_bytes

TITLE = "Trimming gives the disk space back"


async def run(stage: Stage) -> Facts:
    log = stage.cw.log(TOPIC)
    start, stop = await log.bounds()
    before = disk_bytes(stage.data)
    stage.say(f"The log holds {stop - start:,} records, and the folder takes {size_of(before)} of the disk.")
    stage.show(f"await log.trim(before={stop})")
    await log.trim(before=stop)
    after = disk_bytes(stage.data)
    stage.say(
        f"Now it takes {size_of(after)}: {size_of(before - after)} came back. Files go as a whole, once every record in"
        " them is trimmed; the space of the next one may be reserved already."
    )
    try:
        async for _ in log.read(start=start):
            raise CordwoodError(f"record {start} was trimmed, and can be read")
    except Trimmed as trimmed:
        stage.say(f"Reading from {start} raises Trimmed, with start={trimmed.start}; offsets continue from {stop}.")
    return {"records": stop - start, "disk_bytes_before": before, "disk_bytes_after": after}

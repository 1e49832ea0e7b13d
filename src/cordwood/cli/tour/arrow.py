"""Chapter: the same bytes, for Arrow."""

import time
from importlib.util import find_spec

from cordwood.cli.output import size_of

from .stage import TOPIC, Facts, Missing, Stage

TITLE = "To Arrow"


async def run(stage: Stage) -> Facts:
    if find_spec("pyarrow") is None:
        raise Missing("pyarrow is not installed; pip install 'cordwood[arrow]' brings it.")
    import pyarrow

    log = stage.cw.log(TOPIC)
    stage.show("pyarrow.Table.from_batches([batch.to_arrow() async for batch in log.read()])")
    began = time.perf_counter()
    async with log.read() as reader:
        table = pyarrow.Table.from_batches([batch.to_arrow() async for batch in reader])
    seconds = time.perf_counter() - began
    stage.say(
        f"A table of {table.num_rows:,} rows and the columns {', '.join(table.column_names)}, {size_of(table.nbytes)},"
        f" in {seconds * 1000:.0f} ms. Values and keys were not copied: Arrow sees the bytes that came from the disk."
    )
    return {"rows": table.num_rows, "columns": table.column_names, "milliseconds": round(seconds * 1000, 1)}

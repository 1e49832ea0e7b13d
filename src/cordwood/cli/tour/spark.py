"""Chapter: a log as a DataFrame."""

import asyncio
import json
import tempfile

from cordwood.errors import CordwoodError
from cordwood.java import java_problem
from cordwood.pipeline.session import pyspark_problem

from .stage import TOPIC, Facts, Missing, Stage

TITLE = "To Spark"

# In a process of its own: Spark and its Java end with it, and their output stays out of the tour.
_PROGRAM = "from cordwood.cli.tour.spark_reader import main; main()"

# Less than the limit of a chapter: on a busy machine the tour loses this chapter, and no other.
_SECONDS_MAX = 110


async def run(stage: Stage) -> Facts:
    if problem := pyspark_problem() or java_problem("Spark"):
        raise Missing(f"{problem}.")
    stage.say("Spark starts, in another process, and reads beside this one, which has the folder open for writing.")
    stage.show(f'pipeline.read(spark, "{stage.url}", "{TOPIC}").groupBy("partition").count()')
    with tempfile.TemporaryFile() as errors:
        async with stage.process("-c", _PROGRAM, stage.url, TOPIC, errors=errors.fileno()) as process:
            try:
                said, _ = await asyncio.wait_for(process.communicate(), _SECONDS_MAX)
            except TimeoutError:
                raise Missing(f"Spark took more than {_SECONDS_MAX} s on this machine, now.") from None
        if process.returncode != 0:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise CordwoodError(f"Spark failed: {lines[-1] if lines else f'it ended with {process.returncode}'}")
    facts: Facts = json.loads(said)
    stage.say(
        f"Started in {facts['start_seconds']:.1f} s; {facts['rows']:,} rows with the columns"
        f" {', '.join(map(str, _list(facts['columns'])))}, counted in {facts['read_seconds']:.1f} s. The columns and"
        " options are those of Spark's own Kafka source."
    )
    stage.show(f'pipeline.read_stream(spark, "{stage.url}", "{TOPIC}", startingOffsets="earliest")')
    stage.say(
        f"The same as a stream, by a query that was started twice with one checkpoint: {facts['streamed']:,} records,"
        f" then {facts['streamed_again']:,}, in {facts['stream_seconds']:.1f} s. It continues where it was."
    )
    return facts


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value

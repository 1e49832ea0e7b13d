"""Chapter: a log as a DataFrame."""

from .spark_process import check_spark, run_program
from .stage import TOPIC, Facts, Stage

TITLE = "To Spark"

# In a process of its own: Spark and its Java end with it.
_PROGRAM = "from cordwood.cli.tour.spark_reader import main; main()"


async def run(stage: Stage) -> Facts:
    check_spark()
    stage.say("Spark starts, in another process, and reads beside this one, which has the folder open for writing.")
    stage.show(f'pipeline.read(spark, "{stage.url}", "{TOPIC}").groupBy("partition").count()')
    facts = await run_program(stage, _PROGRAM, stage.url, TOPIC)
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

"""A program on Spark in a process of its own, which ends Spark and its Java and keeps their output from the tour."""

import asyncio
import json
import tempfile

from cordwood.errors import CordwoodError
from cordwood.java import java_problem
from cordwood.pipeline.session import pyspark_problem

from .stage import Facts, Missing, Stage

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.showConsoleProgress": "false",
}
"""The settings that start fastest: the tour reads little."""

SECONDS_MAX = 110
"""Less than the limit of a chapter: on a busy machine the tour loses this chapter, and no other."""


def check_spark() -> None:
    """Raise `Missing` where Spark cannot run."""
    if problem := pyspark_problem() or java_problem("Spark"):
        raise Missing(f"{problem}.")


async def run_program(stage: Stage, program: str, *arguments: str) -> Facts:
    """The JSON that a program prints; `Missing` if it takes too long here, an error if it fails."""
    with tempfile.TemporaryFile() as errors:
        async with stage.process("-c", program, *arguments, errors=errors.fileno()) as process:
            try:
                printed, _ = await asyncio.wait_for(process.communicate(), SECONDS_MAX)
            except TimeoutError:
                raise Missing(f"Spark took more than {SECONDS_MAX} s on this machine, now.") from None
        if process.returncode != 0:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise CordwoodError(f"Spark failed: {lines[-1] if lines else f'it ended with {process.returncode}'}")
    facts: Facts = json.loads(printed)
    return facts

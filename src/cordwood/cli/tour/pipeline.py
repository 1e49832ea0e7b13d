"""Chapter: the pipeline on Spark: an outage of the replicator, catch-up, replay, and one line of SQL."""

import random

from cordwood.client import connect
from cordwood.errors import CordwoodError
from cordwood.journal import Event

from .pipeline_jobs import NAME, REGION, TOPIC
from .spark_process import check_spark, run_program
from .stage import Facts, Stage, url_of

TITLE = "The pipeline on Spark: an outage, and two logs as tables"

_ORDERS = 400
_TABLES = 20
_ENTRIES = 50
_ITEMS = {"tea": 3, "coffee": 4, "milk": 1}
# In a process of its own: Spark and its Java end with it.
_PROGRAM = "from cordwood.cli.tour.pipeline_jobs import main; main()"


async def run(stage: Stage) -> Facts:
    check_spark()
    url = url_of(stage.folder / "pipeline")
    stage.say(
        f"A service appends {_ORDERS} orders while nothing replicates them, and {_TABLES} tables write to a region."
        " Then a job on Spark catches up, and both logs become tables, with nothing else installed."
    )
    sold = await _serve(url)
    stage.show(f'pipeline.catch_up(spark, "{url}", ["{TOPIC}"], store)')
    stage.show(f'entries = pipeline.replay(spark, "{url}", "{NAME}", region={REGION})')
    stage.show(f'events = pipeline.events(spark, "{url}", "{TOPIC}", store)')
    facts = await run_program(stage, _PROGRAM, url)
    _check(facts, sold)
    stage.say(
        f"Behind by {facts['lag_before']:,} records; {facts['caught_up']:,} events were replicated in"
        f" {facts['catch_up_seconds']} s, and then it is behind by {facts['lag_after']}. The replay has"
        f" {facts['entries']:,} entries of {facts['tables']} tables, each once and in its order."
    )
    stage.show("SELECT item, sum(price) … GROUP BY item")
    stage.say(f"One line of SQL on the events: {facts['revenue']}. It is what the service sold.")
    return facts


async def _serve(url: str) -> dict[str, int]:
    """What a service does during the outage; its revenue by item."""
    sold = dict.fromkeys(_ITEMS, 0)
    chance = random.Random(7)
    async with connect(url) as cw:
        async with cw.journal(TOPIC, replicate=False) as journal:
            for number in range(_ORDERS):
                item = chance.choice(sorted(_ITEMS))
                sold[item] += _ITEMS[item]
                await journal.append(f"order-{number}", [Event.json({"item": item, "price": _ITEMS[item]})])
        async with cw.wal(NAME).region(REGION) as region:
            for table in range(_TABLES):
                await region.write(table, [b"entry %d" % number for number in range(_ENTRIES)])
    return sold


def _check(facts: Facts, sold: dict[str, int]) -> None:
    wanted = {
        "lag_before": _ORDERS,
        "caught_up": _ORDERS,
        "lag_after": 0,
        "entries": _TABLES * _ENTRIES,
        "tables": _TABLES,
        "revenue": sold,
    }
    for name, value in wanted.items():
        if facts[name] != value:
            raise CordwoodError(f"the pipeline's {name} is {facts[name]!r}, and the service's is {value!r}")

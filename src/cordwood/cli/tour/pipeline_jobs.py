"""The program that the chapter on the pipeline runs: lag, catch-up, replay and SQL in one session; it prints JSON."""

import json
import sys
import time

from cordwood import pipeline
from cordwood.journal.opening import default_store
from cordwood.url import parse_url

from .spark_process import SETTINGS

TOPIC = "orders"
NAME = "metrics"
REGION = 7
_REVENUE = """
SELECT variant_get(parse_json(string(payload)), '$.item', 'string') AS item,
       sum(variant_get(parse_json(string(payload)), '$.price', 'int')) AS price
FROM events GROUP BY item ORDER BY item
"""


def main() -> None:
    (url,) = sys.argv[1:]
    store = default_store(parse_url(url))
    assert store is not None
    spark = pipeline.session(settings=SETTINGS)
    lag_before = _lag(url, store)
    report = pipeline.catch_up(spark, url, [TOPIC], store)
    began = time.perf_counter()
    entries = pipeline.replay(spark, url, NAME, region=REGION).groupBy("table").count().collect()
    replay_seconds = time.perf_counter() - began
    pipeline.events(spark, url, TOPIC, store).createOrReplaceTempView("events")
    revenue = {row["item"]: row["price"] for row in spark.sql(_REVENUE).collect()}
    facts = {
        "lag_before": lag_before,
        "caught_up": report.events,
        "catch_up_seconds": round(report.seconds, 2),
        "lag_after": _lag(url, store),
        "entries": sum(row["count"] for row in entries),
        "tables": len(entries),
        "replay_seconds": round(replay_seconds, 2),
        "revenue": revenue,
    }
    spark.stop()
    print(json.dumps(facts))


def _lag(url: str, store: str) -> int:
    return sum(row.records for row in pipeline.lag(url, [TOPIC], store))

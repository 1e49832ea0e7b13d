"""`python -m bench [names…]`: run the benchmarks, print the table, write it to bench/results/."""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from bench import journal, kafka, kafka_spark, pipeline, pipeline_data, read, spark, wal, write
from bench.measure import Row

Bench = Callable[[Path], Row | list[Row]]

# The pages of results and their rows: a page is written when all of its rows ran.
_PAGES: dict[str, tuple[str, dict[str, Bench]]] = {
    "embedded": (
        "The embedded log",
        {
            "bulk": write.bulk,
            "small": write.small,
            "sqlite": write.against_sqlite,
            "arrow": read.to_arrow,
            "opening": read.opening,
            "memory": read.memory,
        },
    ),
    "spark": ("Spark", {"spark": spark.reading}),
    "pipeline-data": ("The pipeline: events, archive, audit", {"pipeline-data": pipeline_data.data}),
    "kafka": (
        "Logs on Kafka",
        {
            "kafka-append": kafka.append,
            "kafka-read": kafka.read,
            "kafka-spark": kafka_spark.against_sparks_own,
        },
    ),
    "wal": (
        "The write-ahead log",
        {
            "wal-kafka": wal.on_kafka,
            "wal-embedded": wal.embedded,
            "wal-opening": wal.opening,
            "wal-recovery": wal.recovery,
        },
    ),
    "journal": (
        "The journal",
        {
            "journal-append": journal.append,
            "journal-read": journal.read,
            "journal-head": journal.head,
            "journal-store": journal.store,
            "journal-memory": journal.memory,
        },
    ),
    "pipeline": (
        "The pipeline",
        {
            "pipeline-replicate": pipeline.replicate,
            "pipeline-visible": pipeline.visible,
        },
    ),
}
_BENCHES = {name: bench for _, benches in _PAGES.values() for name, bench in benches.items()}
_RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which to run, of: {', '.join(_BENCHES)} (default: all)"
    )
    names = parser.parse_args().names or list(_BENCHES)
    if unknown := set(names) - set(_BENCHES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    results: dict[str, list[Row]] = {}
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        # Not in /tmp, which may be memory: a sync must reach a disk.
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
            result = _alone(_BENCHES[name], Path(folder))
        results[name] = result if isinstance(result, list) else [result]
    print(_table([row for rows in results.values() for row in rows]))
    for page, (title, benches) in _PAGES.items():
        if benches.keys() <= results.keys():
            _write(page, title, [row for name in benches for row in results[name]])
    return 0


def _alone(bench: Bench, folder: Path) -> Row | list[Row]:
    """In a process of its own: what one leaves behind, such as Spark's Java, is not the next one's."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(bench, folder).result()


def _write(page: str, title: str, rows: list[Row]) -> None:
    _RESULTS.mkdir(exist_ok=True)
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    (_RESULTS / f"{page}.md").write_text(f"# {title}\n\nMade by `make bench` on {machine}.\n\n{_table(rows)}")
    (_RESULTS / f"{page}.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def _table(rows: list[Row]) -> str:
    lines = ["| what | ours | peer | ratio | asked | |", "|---|---|---|---|---|---|"]
    for row in rows:
        asked = f"{'≤' if row.at_most else '≥'} {row.asked:g}"
        mark = "" if row.reached else "short"
        lines.append(f"| {row.what} | {row.ours} | {row.peer} | {row.ratio:.2f} | {asked} | {mark} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":  # not in the processes that it starts
    sys.exit(main())

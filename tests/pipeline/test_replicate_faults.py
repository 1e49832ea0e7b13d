"""Drivers, executors and Python workers are killed and stopped: afterwards the store is the one of its log."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

import cordwood
from cordwood import Event
from cordwood.sync import Client
from cordwood.testing.kafka import Broker
from tests.support.pipeline.replicating import behind, pointers, rows, wait_for
from tests.support.spark.cluster import environment, interpreter_without_cordwood, package, running_cluster, submitted
from tests.support.spark.processes import descendants, executors, python_workers, send
from tests.support.spark.queries import SETTINGS

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
SECONDS = 100.0
PARTITIONS = 2


@pytest.fixture(params=["folder", "Kafka"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "folder":
        return f"file:{folder}"
    kafka: Broker = request.getfixturevalue("kafka")
    return kafka.url


@contextmanager
def history(url: str, topic: str, store: str, folder: Path) -> Iterator[Client]:
    """Journals that change during the block. At its end, the rest is replicated, and the store is compared."""
    done = threading.Event()
    with cordwood.sync.connect(url) as cw:
        journal = cw.journal(topic, store=store, replicate=False, partitions=PARTITIONS)
        chance = random.Random(topic)

        def change() -> None:
            key = f"key-{chance.randrange(30)}"
            choice = chance.random()
            if choice < 0.85:
                journal.append(key, [Event.binary(chance.randbytes(200)) for _ in range(chance.randint(1, 5))])
            elif choice < 0.93:
                journal.delete(key, through=chance.randint(1, 10))
            else:
                journal.purge(key)

        def write() -> None:
            while not done.wait(0.02):
                change()

        change()
        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield cw
        finally:
            done.set()
            writer.join()
        journal.catch_up()
        assert behind(url, store, [topic]) == 0
        again = f"sqlite:{folder / 'rebuilt.db'}"
        with cw.journal(topic, store=again, replicate=False, partitions=PARTITIONS) as rebuilt:
            rebuilt.catch_up()
        assert rows(store, topic) == rows(again, topic)
        assert len(rows(store, topic)) > 50
        cw.delete_topic(topic)


def replicated(store: str, topic: str) -> int:
    return sum(pointers(store, topic).values()) if Path(store.removeprefix("sqlite:")).exists() else 0


def wait_for_more(store: str, topic: str, count: int = 30) -> None:
    """Until so many more records are replicated."""
    before = replicated(store, topic)
    wait_for(lambda: replicated(store, topic) >= before + count, "nothing is replicated", SECONDS)


@contextmanager
def driver(url: str, topic: str, store: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "cordwood", "pipeline", "replicate", topic, "--url", url, "--store", store]
    options = ["--master", "local[2]", "--max-records", "40", "--json"]
    options += [word for name, value in SETTINGS.items() for word in ("--spark", f"{name}={value}")]
    # A group of its own, so that its Java goes with it.
    with subprocess.Popen(
        [*command, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            send(descendants(process.pid), signal.SIGKILL)
            process.kill()


def test_a_killed_driver_and_killed_python_workers(url: str, tmp_path: Path) -> None:
    topic, store = f"orders-{uuid4().hex}", f"sqlite:{tmp_path / 'store.db'}"
    with history(url, topic, store, tmp_path):
        with driver(url, topic, store) as process:
            wait_for_more(store, topic)
            process.kill()  # its Java ends by itself, perhaps after its batch
            process.wait()
        with driver(url, topic, store) as process:
            wait_for_more(store, topic)
            workers = python_workers(process.pid)
            assert workers
            send(workers, signal.SIGKILL)
            wait_for_more(store, topic)
            assert process.poll() is None, process.communicate()[1].decode()


def test_a_killed_and_a_stopped_executor_of_a_cluster(tmp_path: Path, folder: Path) -> None:
    """The package comes by --py-files, and the program is the one that `cordwood pipeline script` names."""
    topic, store, url = "orders", f"sqlite:{tmp_path / 'store.db'}", f"file:{folder}"
    python = interpreter_without_cordwood(tmp_path / "python")
    command = [sys.executable, "-m", "cordwood", "pipeline", "script", "--json"]
    script = Path(
        json.loads(subprocess.run(command, capture_output=True, check=True, env=environment({})).stdout)["script"]
    )
    settings = {
        "spark.network.timeout": "6s",
        "spark.network.timeoutInterval": "1s",
        "spark.executor.heartbeatInterval": "1s",
        "spark.log.level": "WARN",
    }
    arguments = ["replicate", topic, "--url", url, "--store", store, "--max-records", "40"]
    with running_cluster(tmp_path / "cluster") as cluster, history(url, topic, store, tmp_path):
        (tmp_path / "driver").mkdir()
        with submitted(
            tmp_path / "driver",
            cluster.url,
            python,
            package(tmp_path / "cordwood.zip"),
            script,
            *arguments,
            settings=settings,
        ) as program:
            try:
                wait_for_more(store, topic)
            except AssertionError as error:
                raise AssertionError(program.text()) from error
            send(executors(cluster.workers[0]), signal.SIGKILL)
            wait_for_more(store, topic)
            stopped = [pid for jvm in executors(cluster.workers[1]) for pid in (jvm, *descendants(jvm))]
            assert len(stopped) >= 2
            send(stopped, signal.SIGSTOP)
            try:
                # Until its tasks run elsewhere: Spark gives it up.
                program.says(r"(heartbeat timed out|Lost executor|Executor heartbeat)")
                time.sleep(1)
            finally:
                send(stopped, signal.SIGCONT)
            wait_for_more(store, topic)
            assert not program.ended, program.text()

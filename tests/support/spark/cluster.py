"""A real Spark of several processes on this machine: a master and two workers, each with an executor of its own."""

import os
import re
import signal
import subprocess
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyspark

ROOT = Path(__file__).parents[3]
_BIN = Path(pyspark.__file__).parent / "bin"
# Each step takes some seconds; on a machine that is busy with other things, more.
_SECONDS_MAX = 100.0
_FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Daemon:
    """A program of Spark that writes to a log, with all processes that it starts."""

    def __init__(self, name: str, folder: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._log = folder / f"{name}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment(env),
                # A group of its own: executors are children of a worker, and must go with it.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def text(self) -> str:
        return self._log.read_text()

    def says(self, pattern: str) -> str:
        """Wait until the log has it; returns the first group."""
        until = time.monotonic() + _SECONDS_MAX
        while (found := re.search(pattern, self._log.read_text())) is None:
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{self._log.name} does not say {pattern!r}:\n{self._log.read_text()}")
            time.sleep(0.05)
        return found[1]

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Cluster(NamedTuple):
    """A master with two workers."""

    url: str
    workers: tuple[int, ...]
    """Their processes: each executor is a child of one."""


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The url of a master with two workers; all of it is stopped at the end, also after a failure."""
    with running_cluster(folder) as running:
        yield running.url


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A master with two workers; all of it is stopped at the end, also after a failure."""
    folder.mkdir()
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _FAST_JVM}
    with ExitStack() as started:

        def start(name: str, *arguments: str) -> Daemon:
            daemon = Daemon(name, folder, [str(_BIN / "spark-class"), *arguments], small)
            started.callback(daemon.stop)
            return daemon

        loopback = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = start("master", "org.apache.spark.deploy.master.Master", *loopback)
        url = master.says(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        size = ("--cores", "1", "--memory", "600m")
        workers = [
            start(
                f"worker{n}",
                "org.apache.spark.deploy.worker.Worker",
                *(*loopback, *size, "--work-dir", str(folder / f"work{n}"), url),
            )
            for n in range(2)
        ]
        for worker in workers:
            worker.says(r"(Successfully registered with master)")
        yield Cluster(url, tuple(worker.pid for worker in workers))


def interpreter_without_cordwood(folder: Path) -> Path:
    """A Python that has all packages of this one, but not ours."""
    venv.create(folder, symlinks=True)
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        # A .pth file is how an editable install leads to its sources.
        if "cordwood" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def package(target: Path) -> Path:
    """Ours as one file, for `--py-files`."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted((ROOT / "src").rglob("*.py")):
            archive.write(path, path.relative_to(ROOT / "src"))
    return target


def submit(master: str, python: Path, py_files: Path, job: Path, *arguments: str) -> None:
    """Run a program by `spark-submit`, in the folder that it is in."""
    command, env = _submission(master, python, py_files, job, {})
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        cwd=job.parent,
        env=environment(env),
    )
    if done.returncode:
        raise AssertionError(f"spark-submit ended with {done.returncode}:\n{done.stdout}\n{done.stderr[-8000:]}")


@contextmanager
def submitted(
    folder: Path,
    master: str,
    python: Path,
    py_files: Path,
    job: Path,
    *arguments: str,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Daemon]:
    """A program that `spark-submit` runs meanwhile; it is killed at the end."""
    command, env = _submission(master, python, py_files, job, settings)
    daemon = Daemon("submitted", folder, [*command, *arguments], env)
    try:
        yield daemon
    finally:
        daemon.stop()


def _submission(
    master: str, python: Path, py_files: Path, job: Path, more: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _FAST_JVM,
        "spark.executor.extraJavaOptions": _FAST_JVM,
        "spark.executor.memory": "500m",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        **more,
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [str(_BIN / "spark-submit"), "--master", master, "--py-files", str(py_files), *options, str(job)]
    return command, {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's, without what would lead a new interpreter to our sources, and on the loopback alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **more}

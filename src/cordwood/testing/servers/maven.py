"""The jars of a server, which Maven fetches once for this user.

A `pom.xml` lists them. They are in a folder of the user's cache whose name has a hash of that file: an existing folder
is complete, since it gets its name last.
"""

import fcntl
import hashlib
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cordwood.errors import Unavailable

_SECONDS_MAX = 900  # a slow network takes minutes for some 50 MB; one that hangs takes forever
_PROGRESS_SECONDS = 2.0
_LINES_SHOWN = 12

Say = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Print a line of progress, apart from the program's output."""
    print(line, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """The folder of fetched files: `$XDG_CACHE_HOME/cordwood`, else `~/.cache/cordwood`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cordwood"


def maven_problem(user: str) -> str | None:
    """Why the jars of `user` cannot be fetched, in one line; None if they can."""
    if shutil.which("mvn") is None:
        return f"{user} needs Maven to fetch its jars, and there is no mvn: install it (Debian: maven)"
    return None


def jar_folder(pom: Path, name: str, say: Say = to_stderr) -> Path:
    """The folder with the jars of `pom`; fetches missing jars, and raises `Unavailable` with the reason if it cannot.

    ```python
    jars = sorted(jar_folder(Path("pom.xml"), "kafka").glob("*.jar"))
    ```
    """
    key = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / "jars" / f"{name}-{key}"
    if folder.is_dir():
        return folder
    if problem := maven_problem(name):
        raise Unavailable(problem, reason="missing-java")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder.with_suffix(".lock"), f"{name}: another process fetches the jars, waiting for it", say):
        if not folder.is_dir():
            _fetch(pom, name, folder, say)
    return folder


def _fetch(pom: Path, name: str, folder: Path, say: Say) -> None:
    for left in folder.parent.glob(f"{folder.name}.part-*"):  # of a killed process: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        say(f"{name}: fetching the jars into {folder}, once")
        started = time.monotonic()
        # A copy of the pom, so that Maven writes nothing next to an installed package.
        copied = part / "pom.xml"
        shutil.copyfile(pom, copied)
        _maven(
            ["-f", str(copied), "dependency:copy-dependencies", f"-DoutputDirectory={part}", "-DincludeScope=runtime"],
            name,
            say,
        )
        jars = [*part.glob("*.jar")]
        if not jars:
            raise Unavailable(
                f"{name}: mvn fetched no jar for {pom}: run `mvn -f {pom} dependency:tree` to see why", reason="failed"
            )
        part.rename(folder)
        say(f"{name}: {len(jars)} jars in {time.monotonic() - started:.0f} s")
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _maven(arguments: list[str], name: str, say: Say) -> None:
    """Run mvn with this machine's configuration, and report its progress now and then."""
    lines: list[str] = []
    # A session of its own: mvn is a shell script, and its Java process must end with it.
    process = subprocess.Popen(
        ["mvn", "-B", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        for line in _until(process, time.monotonic() + _SECONDS_MAX, name, say):
            lines.append(line)
    finally:
        _end_group(process)
    if process.returncode:
        said = "\n".join(lines[-_LINES_SHOWN:]) or "(it said nothing)"
        raise Unavailable(
            f"{name}: mvn failed with status {process.returncode}; it said last:\n{said}", reason="failed"
        )


def _until(process: "subprocess.Popen[str]", deadline: float, name: str, say: Say) -> Iterator[str]:
    said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    assert process.stdout is not None
    reader = threading.Thread(target=_pump, args=(process.stdout, said), daemon=True)
    reader.start()
    files, told = 0, time.monotonic()
    while True:
        try:
            line = said.get(timeout=max(0.0, min(_PROGRESS_SECONDS, deadline - time.monotonic())))
        except queue.Empty:
            line = ""
        if line is None:
            process.wait()
            return
        files += " Downloaded from " in line
        if line:
            yield line.rstrip()
        if time.monotonic() > deadline:
            raise Unavailable(
                f"{name}: mvn was not done after {_SECONDS_MAX} s: see whether its repository answers",
                reason="unreachable",
            )
        if time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            say(f"{name}: {files} files fetched so far")


def _pump(lines: Iterator[str], said: "queue.SimpleQueue[str | None]") -> None:
    for line in lines:
        said.put(line)
    said.put(None)


def _end_group(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


@contextmanager
def hold_lock(path: Path, waiting: str, say: Say) -> Iterator[None]:
    """Hold the lock of a file; the system releases it with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

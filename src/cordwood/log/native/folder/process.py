"""A folder that this process has open: for writing, shared by all its connections, or for reading only.

Locks: one for each folder is held across open and close. `_registry_lock` is held only to read or change the registry.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from copy import copy
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from cordwood.errors import CordwoodError, Corrupt, InvalidInput, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.threads import in_a_thread
from cordwood.log.native.coordinator import Coordinator, SqliteCoordinator, TopicRow
from cordwood.log.native.env.clock import RealClock
from cordwood.log.native.env.disk import RealDisk
from cordwood.log.native.env.timer import Timer
from cordwood.log.native.env.workers import ThreadWorkers
from cordwood.log.native.folder.witness import Witness, WitnessedCoordinator, witnessed_stamp
from cordwood.log.native.plog import PlogStore
from cordwood.log.native.stream.reading.cursor import Source

from .lock import FolderLock, is_written
from .observer import FolderObserver
from .place import COORDINATOR, DURABILITY, check_ours, durability_of
from .staged import StagedCommits, StagedFile, Write, remove_staged
from .writer import FolderWriter
from .written_log import WrittenLog

_LOCK = "lock"
_WRITERS = 8
_READERS = 4
_EXPIRE_SECONDS = 0.25
_CATCH_UP_SECONDS = 0.25
_QUIET_SECONDS = 1.0
_RETENTION_SECONDS = 10.0
_UNFINISHED_SECONDS = 1.0
_CLOSE_SECONDS = 30.0

F = TypeVar("F")

_LOGGER = logging.getLogger("cordwood.folder")


def _closed(path: Path) -> Unavailable:
    return Unavailable(f"{path}: the connection is closed: connect again", outcome="not_written", reason="closed")


class OpenFolder(Protocol):
    """The interface that connections use, for a folder that is open for writing or for reading."""

    path: Path
    executor: ThreadPoolExecutor
    durability: str
    """What an ack promises here, in words."""
    gone: Unavailable | None
    """The error that every later call raises, once the folder is closed or the process has forked."""

    def check(self) -> None:
        """`Unavailable` in a forked child, and once the folder is closed."""

    def writing(self) -> FolderWriter:
        """The engine to write with; `Unavailable` if the folder is open for reading only."""

    def appending(self) -> FolderWriter:
        """The engine to append with; `Unavailable` also while a decided commit is not finished."""

    def topics(self) -> list[TopicRow]: ...

    def topic(self, name: str) -> TopicRow: ...

    def source(self, topic: str, partition: int) -> Source: ...

    def close(self, timeout: float) -> None:
        """Release one connection; the last one closes the folder. Blocks."""


class _OpenFolder:
    """The common part of both kinds: the threads for reads, and the check that this process opened the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.executor = ThreadPoolExecutor(_READERS, thread_name_prefix="cordwood-read")
        self.connections = 1
        self.durability = DURABILITY
        self.gone: Unavailable | None = None

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        if self.gone is not None:
            raise copy(self.gone)

    def _note_durability(self) -> None:
        """Warn once in a process where an ack promises less than it should."""
        self.durability = durability_of(self.path)
        if self.durability != DURABILITY and self.path not in _warned:
            _warned.add(self.path)
            _LOGGER.warning("%s: %s", self.path, self.durability)

    def mark_forked(self) -> None:
        self.gone = Unavailable(
            f"{self.path}: this connection belongs to the parent process: connect anew in the child",
            outcome="not_written",
            reason="forked",
        )


class FolderOpenForWriting(_OpenFolder):
    """The one writer. All connections of the process share it."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        super().__init__(path)
        self.alone = alone
        begun = time.monotonic()
        disk = RealDisk(path)
        # R2: if the folder's own name is not durable, a power cut loses the folder with all the data synced in it.
        disk.make_folder("")
        self._note_durability()
        self._lock = FolderLock(path / _LOCK)
        with ExitStack() as failed:
            failed.callback(self._lock.release)
            coordinator = open_coordinator(path, disk)
            failed.callback(coordinator.close)
            self._workers = ThreadWorkers("cordwood-write", _WRITERS)
            failed.callback(self._workers.close)
            clock = RealClock()
            self._engine = FolderWriter(disk, clock, self._workers, coordinator)
            self._lock.announce()
            failed.pop_all()
        # A dedicated thread delivers timeouts. It takes no lock that is held during I/O.
        self._expiry = Timer("cordwood-expire")
        self._timer = Timer("cordwood-timer")
        # A commit waits for acks, which may wait for `catch_up`: it must not hold up the timer.
        self._commit_timer = Timer("cordwood-commit")
        self.staged = StagedCommits(disk, clock, self._workers, coordinator, self._engine)
        self._unfinished: CordwoodError | None = None
        try:
            self._begin()
        except BaseException:
            self._shut_down(_CLOSE_SECONDS)
            raise
        seconds = time.monotonic() - begun
        _LOGGER.info("%s: opened for writing: %d topics, %.3f s", path, len(self._engine.topics()), seconds)

    def writing(self) -> FolderWriter:
        return self._engine

    def appending(self) -> FolderWriter:
        error = self._unfinished
        if error is not None:
            raise Unavailable(
                f"{self.path}: nothing can be appended yet: {error}", outcome="not_written", reason=reason_of(error)
            ) from error
        return self._engine

    def topics(self) -> list[TopicRow]:
        return self._engine.topics()

    def topic(self, name: str) -> TopicRow:
        return self._engine.topic(name)

    def source(self, topic: str, partition: int) -> WrittenLog:
        return self._engine.log(topic, partition)

    def raise_failure(self, topic: str, partition: int) -> None:
        """Raise the error of a failed background task of this log, if any. A log that does not exist has none."""
        try:
            log = self._engine.log(topic, partition)
        except CordwoodError:
            return
        log.raise_failure()

    def close(self, timeout: float) -> None:
        with _folder_lock(self.path):
            with _registry_lock:
                self.connections -= 1
                if self.connections:
                    return
                _registry.pop(self.path, None)
            self._shut_down(timeout)

    def _begin(self) -> None:
        self._expiry.every(_EXPIRE_SECONDS, self._engine.expire)
        # Until the engine is closed, since the close may have to wait for room on the disk.
        self._timer.every(_CATCH_UP_SECONDS, self._engine.catch_up)
        self._timer.every(_QUIET_SECONDS, self._engine.give_space_back)
        self._timer.every(_RETENTION_SECONDS, self._engine.enforce_retention)
        try:
            # R28: before any caller can append.
            self.staged.finish_decided()
        except Unavailable as error:
            # Mostly a full disk: a trim, or the deletion of a topic, must still be able to make room.
            self._unfinished = error
            self._commit_timer.every(_UNFINISHED_SECONDS, self._finish_again)

    def _finish_again(self) -> None:
        if self._unfinished is None:
            return
        try:
            self.staged.finish_decided()
        except CordwoodError as error:
            self._unfinished = error
        else:
            self._unfinished = None

    def _shut_down(self, timeout: float) -> None:
        self.gone = _closed(self.path)
        self.executor.shutdown(wait=False)
        finished = threading.Event()
        _closing.add(self.path)
        try:
            # In another thread: a retention run, or a caller that creates a topic, may wait for a disk that does not
            # answer.
            in_a_thread("cordwood-end", partial(self._end, finished))
        except Unavailable:
            self._end(finished)  # no thread could be started
        if not finished.wait(timeout):
            raise Timeout(
                f"closing {self.path} took more than {timeout} s; acked records are durable,"
                " and the folder stays locked until the disk has answered"
            )

    def _end(self, finished: threading.Event) -> None:
        self._commit_timer.close()
        for job in (self._engine.give_space_back, self._engine.enforce_retention):
            self._timer.cancel(job)
        self._engine.close(lambda: self._let_go(finished))

    def _let_go(self, finished: threading.Event) -> None:
        # R8: not earlier. A disk that answers late would let this process ack records that the next writer has
        # truncated.
        self._expiry.close()
        self._timer.close()
        self._workers.close()
        self._lock.release()
        _closing.discard(self.path)
        _LOGGER.info("%s: closed", self.path)
        finished.set()


class FolderOpenForReading(_OpenFolder):
    """Alongside the writer, or without one. Connections do not share it: it holds almost nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if not path.is_dir():
            raise Unavailable(f"{path} does not exist: connect without read_only=True to make it", reason="unreachable")
        self._note_durability()
        self._view = FolderObserver(RealDisk(path), self._writer_alive)
        with _registry_lock:
            _reading.add(self)

    def writing(self) -> FolderWriter:
        raise Unavailable(
            f"{self.path} is connected with read_only=True: connect without it to write",
            outcome="not_written",
            reason="read-only",
        )

    def appending(self) -> FolderWriter:
        return self.writing()

    def topics(self) -> list[TopicRow]:
        return self._view.topics()

    def topic(self, name: str) -> TopicRow:
        return self._view.topic(name)

    def source(self, topic: str, partition: int) -> Source:
        return self._view.log(topic, partition)

    def close(self, timeout: float) -> None:
        self.gone = _closed(self.path)
        with _registry_lock:
            _reading.discard(self)
        closing = in_a_thread("cordwood-close", self._let_go)
        try:
            closing.result(timeout)
        except TimeoutError as error:
            raise Timeout(
                f"closing {self.path} took more than {timeout} s: its files are closed when the disk has answered"
            ) from error

    def _let_go(self) -> None:
        # Not earlier: a file must not be closed while a thread reads it.
        self.executor.shutdown(wait=True)
        self._view.close()

    def _writer_alive(self) -> bool:
        return is_written(self.path / _LOCK)


def open_for_writing(path: Path) -> OpenFolder:
    """Blocks. A second connection of the process shares the first one's engine."""
    path = _check_path(path)
    with _folder_lock(path):
        with _registry_lock:
            folder = _registry.get(path)
            if folder is not None and not folder.alone:
                folder.connections += 1
                return folder
        if folder is not None:
            raise _written_here(path)
        if path in _closing:
            raise Unavailable(
                f"{path} is still being closed by this process: try again when the disk has answered",
                reason="busy",
                pid=os.getpid(),
            )
        folder = _translate_errors(path, FolderOpenForWriting)
        with _registry_lock:
            _registry[path] = folder
        return folder


def commit_staged(path: Path, write: Write, files: Sequence[StagedFile]) -> bool:
    """Blocks. Append all staged records, once; False if an earlier call did that: `StagedCommits.commit`.

    It needs the folder for itself: `Unavailable` while any process, this one included, has it open for writing. If the
    folder cannot be opened, the files are removed, as after every other error before the decision.
    """
    path = _check_path(path)
    try:
        folder = _open_alone(path)
    except CordwoodError as error:
        remove_staged(RealDisk(path), [file.name for file in files])
        error.outcome = "not_written"
        raise
    try:
        return folder.staged.commit(write, files)
    finally:
        try:
            folder.close(_CLOSE_SECONDS)
        except Timeout as error:
            # A caller that treated this as the outcome of the commit would repeat it.
            _LOGGER.warning("%s", error)


def _open_alone(path: Path) -> FolderOpenForWriting:
    with _folder_lock(path):
        if path in _registry or path in _closing:
            raise _written_here(path)
        folder = _translate_errors(path, partial(FolderOpenForWriting, alone=True))
        with _registry_lock:
            _registry[path] = folder
    try:
        folder.appending()
    except Unavailable:
        folder.close(_CLOSE_SECONDS)
        raise
    return folder


def _written_here(path: Path) -> Unavailable:
    return Unavailable(
        f"{path} is being written by process {os.getpid()}, which is this one: one writes a folder at a time",
        reason="busy",
        pid=os.getpid(),
    )


def open_for_reading(path: Path) -> OpenFolder:
    """Blocks. If this process writes the folder itself, its engine serves the readers too."""
    path = _check_path(path)
    with _registry_lock:
        folder = _registry.get(path)
        if folder is not None:
            folder.connections += 1
            return folder
    return _translate_errors(path, FolderOpenForReading)


def holds_logs(path: Path) -> bool:
    """Whether any process ever opened this folder for writing. Blocks."""
    return (path / COORDINATOR).exists()


def _folder_lock(path: Path) -> threading.Lock:
    """The folder's lock, held across open and close for writing, with all their I/O; other folders are not blocked."""
    with _registry_lock:
        return _folder_locks.setdefault(path, new_lock("process.folder"))


def _check_path(path: Path) -> Path:
    path = Path(os.path.realpath(path))
    if _translate_errors(path, _is_file):
        raise InvalidInput(f"{path} is a file: a log needs a folder")
    _translate_errors(path, check_ours)
    return path


def _is_file(path: Path) -> bool:
    return path.exists() and not path.is_dir()


def open_coordinator(path: Path, disk: RealDisk) -> Coordinator:
    """The coordinator of a folder that this process has locked; `Corrupt` if it has lost confirmed changes. Blocks."""
    _check_whole(path, disk)
    witness = Witness(disk)
    database = SqliteCoordinator(path / COORDINATOR, witness.check)
    try:
        return WitnessedCoordinator(database, witness)
    except BaseException:
        database.close()
        raise


def _check_whole(path: Path, disk: RealDisk) -> None:
    # Without its coordinator the folder would look new, and the open would sweep away every plog as a leftover.
    if (path / COORDINATOR).exists():
        return
    plogs = PlogStore(disk).files()
    if plogs or witnessed_stamp(disk) is not None:
        raise Corrupt(
            f"{path} has {len(plogs)} plogs, but its {COORDINATOR} is gone: restore the folder from a copy,"
            " or read it with read_only=True"
        )


def _translate_errors(path: Path, open_it: Callable[[Path], F]) -> F:
    try:
        return open_it(path)
    except CordwoodError:
        raise
    except (OSError, RuntimeError) as error:
        # RuntimeError: no thread could be started.
        raise Unavailable(f"{path} cannot be opened: {error}", reason=reason_of(error)) from error


_registry: dict[Path, FolderOpenForWriting] = {}
_reading: set[FolderOpenForReading] = set()
_warned: set[Path] = set()
# Closed by their last connection, but their engine has not released them yet.
_closing: set[Path] = set()
# Held only to read or change the registry, never during I/O.
_registry_lock = new_lock("process.registry")
_folder_locks: "weakref.WeakValueDictionary[Path, threading.Lock]" = weakref.WeakValueDictionary()


def _after_fork_in_child() -> None:
    """Threads and locks stay with the parent: every inherited folder raises `Unavailable` from now on."""
    global _registry_lock, _folder_locks
    for folder in (*_registry.values(), *_reading):
        folder.mark_forked()
    _registry.clear()
    _reading.clear()
    _closing.clear()
    _registry_lock = new_lock("process.registry")
    _folder_locks = weakref.WeakValueDictionary()


os.register_at_fork(after_in_child=_after_fork_in_child)

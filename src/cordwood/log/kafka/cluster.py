"""A Kafka cluster that this process is connected to: its clients, shared by all connections with the same settings.

Locks: `_registry_lock` and each cluster's `_lock` are held only for a moment, never during a request.
"""

import ctypes
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from copy import copy

from confluent_kafka import KafkaError, KafkaException

from cordwood.errors import CordwoodError, Unavailable
from cordwood.locks import new_lock
from cordwood.log.calls.threads import DaemonThreads

from .admin import Admin
from .consumers import Consumers
from .deadline import ATTEMPT_SECONDS
from .errors import is_locked_out, kafka_error, translate
from .offsets import Offsets
from .producer import Sender
from .settings import BATCH_BYTES, Settings
from .topics import TopicFacts, Topics

_LOGGER = logging.getLogger("cordwood.kafka")

_THREADS = 8
_LOOK_AGAIN_SECONDS = 0.02
_FACTS_SECONDS = 60.0
_BATCH_SLACK_BYTES = 1024
_BATCH_BYTES_MIN = 1024

Log = tuple[str, int]
_ALL = -1
"""In place of a partition: all partitions of the topic."""

Bounds = dict[int, tuple[int, int]]
"""By partition: the first kept offset, and one past the last."""


class SharedCluster:
    """One admin client, one producer (more only for topics with small limits), and the consumers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.connections = 1
        self.gone: Unavailable | None = None
        """Why the cluster cannot be used any more; None while it can."""
        self._said: deque[KafkaError] = deque(maxlen=1)
        """The last error of a broker."""
        self._admin = Admin(settings, self._on_error)
        self.topics = Topics(self._admin, settings)
        self.offsets = Offsets(self._admin, self.topics, settings)
        self.consumers = Consumers(settings)
        self.executor = DaemonThreads(_THREADS, "cordwood-kafka")
        self.reading: set[threading.Thread] = set()
        self._looks: dict[Log, set[Future[Bounds]]] = {}
        """Look-ups of log ends that are under way: they must not see an append that came later."""
        self._lock = new_lock("kafka.cluster")
        self._senders: dict[int, Sender] = {}
        self._facts: dict[str, Future[TopicFacts]] = {}

    def reach(self, timeout: float) -> None:
        """Return once a broker has answered; blocks."""
        self._said.clear()
        deadline = time.monotonic() + timeout
        attempt = ATTEMPT_SECONDS
        while True:
            try:
                left = max(0.001, min(attempt, deadline - time.monotonic()))
                self.settings.learn(self._admin.client.list_topics(timeout=left))
                return
            except KafkaException as error:
                self._admin.client.poll(0)  # collects the errors of each broker, such as a wrong password
                cause = self._said[-1] if self._said else kafka_error(error)
            # The client would retry a refused login again and again.
            if is_locked_out(cause) or time.monotonic() >= deadline:
                break
            attempt *= 2  # a broker may be slow, and each attempt repeats the request
            self._admin.renew()
            time.sleep(min(_LOOK_AGAIN_SECONDS, max(0.0, deadline - time.monotonic())))
        if cause.code() not in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
            raise translate(cause, f"connecting to {self}", self.settings)
        why = self.settings.masked(cause.str())
        raise Unavailable(
            f"{self}: no broker has answered within {timeout} s ({why}): is it running?", reason="unreachable"
        )

    def check(self) -> None:
        """Raise `Unavailable` in a forked child, and once the cluster is closed."""
        if self.gone is not None:
            raise copy(self.gone)
        self._admin.client.poll(0)  # else the client keeps its events for ever

    def facts(self, topic: str) -> TopicFacts:
        """The facts of a topic that appends need: one request, however many callers wait for it. Blocks.

        The request has the connection's timeout, not the caller's: other waiting callers may have more time.
        """
        with self._lock:
            known = self._facts.get(topic)
            if known is not None and known.done() and known.result().expires <= time.monotonic():
                known = None
            if ask := known is None:
                known = self._facts[topic] = Future()
        assert known is not None
        if ask:
            try:
                known.set_result(self.topics.facts(topic, self.settings.timeout, _FACTS_SECONDS))
            except BaseException as error:
                self.forget(topic)
                known.set_exception(error)
        return known.result()

    def forget(self, topic: str) -> None:
        """Drop the facts of a topic, which are wrong: it was deleted, or refused a record that they allow."""
        with self._lock:
            known = self._facts.pop(topic, None)
        if known is not None and known.done() and known.exception() is None:
            known.result().expires = 0.0

    def sender(self, batch_bytes_max: int | None) -> Sender:
        """The sender for topics with this limit: its batches never exceed it."""
        batch_bytes = BATCH_BYTES
        if batch_bytes_max is not None and batch_bytes_max < BATCH_BYTES + _BATCH_SLACK_BYTES:
            # Powers of two, so that a few clients serve all limits.
            batch_bytes = max(_BATCH_BYTES_MIN, 1 << (batch_bytes_max.bit_length() - 1) >> 1)
        with self._lock:
            self.check()
            sender = self._senders.get(batch_bytes)
            if sender is None or sender.failed:
                sender = self._senders[batch_bytes] = Sender(self.settings, batch_bytes, self.forget)
            return sender

    def look_at_ends(
        self, topic: str, partitions: Iterable[int] | None, *, uncommitted: bool = False
    ) -> "Future[Bounds]":
        """Look up the bounds of logs as of now, by default of all; later appends of this process wait for that."""
        deadline = time.monotonic() + self.settings.timeout
        logs = [(topic, _ALL)] if partitions is None else [(topic, partition) for partition in partitions]
        chosen = None if partitions is None else [partition for _, partition in logs]

        def bounds() -> Bounds:
            # The time that is left: look-ups may queue for a thread, and the last one has no more time than the first.
            return self.offsets.bounds_of(topic, chosen, deadline - time.monotonic(), uncommitted=uncommitted)

        asked = self.executor.submit(bounds)
        with self._lock:
            for log in logs:
                self._looks.setdefault(log, set()).add(asked)
        asked.add_done_callback(lambda _: self._on_ends_found(logs, asked))
        return asked

    def looks_at_end(self, log: Log) -> "list[Future[Bounds]]":
        """The look-ups of a log's end that are under way; an append waits for them."""
        if not self._looks:  # without the lock: a caller that reads and then appends sees its own look-up
            return []
        with self._lock:  # look-ups end in other threads
            return [*self._looks.get(log, ()), *self._looks.get((log[0], _ALL), ())]

    def _on_ends_found(self, logs: list[Log], asked: "Future[Bounds]") -> None:
        with self._lock:
            for log in logs:
                if pending := self._looks.get(log):
                    pending.discard(asked)
                    if not pending:
                        del self._looks[log]

    def close(self, timeout: float) -> None:
        """Release one connection; the last one sends the queued appends and closes the clients. Blocks."""
        with _registry_lock:
            self.connections -= 1
            if self.connections:
                return
            _registry.pop(self.settings.key, None)
        deadline = time.monotonic() + timeout
        with self._lock:  # waits for a client that is being made; later calls make none
            self.gone = _closed(self)
            senders = list(self._senders.values())
        for sender in senders:
            sender.close(max(0.0, deadline - time.monotonic()))
        # A reader ends with its step, within a moment; one that waits for a hung broker ends by its own timeout.
        deadline = min(deadline, time.monotonic() + ATTEMPT_SECONDS)
        for thread in list(self.reading):
            if thread.is_alive():  # not a thread about to start, which finds its reader stopped
                thread.join(max(0.0, deadline - time.monotonic()))
        self.consumers.close()
        self.executor.shutdown(wait=False)
        _open.discard(self)

    def mark_forked(self) -> None:
        """In the child: keep the clients from being freed, which would wait for threads that only the parent has."""
        self.gone = Unavailable(
            f"{self}: this connection belongs to the parent process: connect anew in the child",
            outcome="not_written",
            reason="forked",
        )
        for handle in (
            self._admin.client,
            *self.consumers.handles(),
            *(h for s in self._senders.values() for h in s.handles()),
        ):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # comes after the errors of each broker, with less detail
            self._said.append(error)

    def __str__(self) -> str:
        return f"kafka://{','.join(self.settings.servers)}"


def _closed(cluster: SharedCluster) -> Unavailable:
    return Unavailable(f"{cluster}: the connection is closed: connect again", outcome="not_written", reason="closed")


def open_cluster(settings: Settings, timeout: float) -> SharedCluster:
    """Open a cluster, or share the clients of an earlier connection with the same settings. Blocks."""
    with _registry_lock:
        cluster = _registry.get(settings.key)
        if cluster is None:
            cluster = _registry[settings.key] = SharedCluster(settings)
            _open.add(cluster)
        else:
            cluster.connections += 1
    try:
        cluster.reach(timeout)
    except BaseException:
        with suppress(CordwoodError):
            cluster.close(0)
        raise
    _LOGGER.info("%s: connected", cluster)
    return cluster


_registry: dict[tuple[object, ...], SharedCluster] = {}
_open: set[SharedCluster] = set()
_registry_lock = new_lock("kafka.registry")


def _after_fork_in_child() -> None:
    """The threads stay with the parent: every inherited cluster raises an error from now on."""
    global _registry_lock
    for cluster in _open:
        cluster.mark_forked()
    _registry.clear()
    _registry_lock = new_lock("kafka.registry")


os.register_at_fork(after_in_child=_after_fork_in_child)

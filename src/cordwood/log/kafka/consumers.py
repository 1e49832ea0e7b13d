"""The clients that read: one for each open reader, and a few idle ones for the next readers.

Lock: `_lock` guards the idle clients and is never held during a request.
"""

from confluent_kafka import Consumer, KafkaError

from cordwood.locks import new_lock

from .settings import ClientKind, Settings

_IDLE_MAX = 6
"""Readers of one log, readers of several, and fetches: few of each kind run at a time."""


class Consumers:
    """A new client costs threads, a connection and several requests, so a short read reuses an idle one.

    A follower's client is not reused: the broker holds its last request until a record is written, and answers no other
    request before.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = new_lock("kafka.consumers")
        self._idle: list[tuple[ClientKind, Consumer]] = []
        self._used: set[Consumer] = set()
        self._closed = False

    def take(self, kind: ClientKind) -> Consumer:
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):  # the last one used, whose connections are up
                if self._idle[place][0] == kind:
                    consumer = self._idle.pop(place)[1]
                    self._used.add(consumer)
                    return consumer
        return self.make(kind)

    def make(self, kind: ClientKind) -> Consumer:
        """Make a new client."""
        with self._lock:
            consumer = Consumer(self._settings.consumer(kind, _ignore))
            self._used.add(consumer)
        return consumer

    def give_back(self, kind: ClientKind, consumer: Consumer, again: bool) -> None:
        """Keep the client for another reader if `again`, else close it. Blocks for a moment."""
        again = again and not kind.follow
        if again:
            consumer.unassign()
        with self._lock:
            self._used.discard(consumer)
            if again and not self._closed:
                self._idle.append((kind, consumer))
                # The one that was not used for longest goes.
                consumers = [] if len(self._idle) <= _IDLE_MAX else [self._idle.pop(0)[1]]
            else:
                consumers = [consumer]
        for consumer in consumers:
            consumer.close()

    def close(self) -> None:
        """Close the idle clients; those in use are closed when their readers give them back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, consumer in idle:
            consumer.close()

    def handles(self) -> list[object]:
        """The clients, which a forked child must not free."""
        return [*(consumer for _, consumer in self._idle), *self._used]


def _ignore(error: KafkaError) -> None:
    """The client retries by itself; a reader that gets no records asks the cluster why."""

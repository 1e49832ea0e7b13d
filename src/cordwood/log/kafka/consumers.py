"""The clients that read: one for each open reader, and a few idle ones for the next readers.

Lock: `_lock` guards the idle clients and is never held during a request.
"""

from confluent_kafka import Consumer, KafkaError

from cordwood.locks import new_lock

from .settings import Settings

_IDLE_MAX = 4


class Consumers:
    """A new client costs threads, a connection and several requests, so a short read reuses an idle one.

    A follower's client is not reused: the broker holds its last request until a record is written, and answers no other
    request before.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = new_lock("kafka.consumers")
        self._idle: list[Consumer] = []
        self._used: set[Consumer] = set()
        self._closed = False

    def take(self, follow: bool) -> Consumer:
        with self._lock:
            if self._idle and not follow:
                consumer = self._idle.pop()
                self._used.add(consumer)
                return consumer
        return self.make(follow)

    def make(self, follow: bool) -> Consumer:
        """Make a new client."""
        with self._lock:
            consumer = Consumer(self._settings.consumer(follow, _ignore))
            self._used.add(consumer)
        return consumer

    def give_back(self, consumer: Consumer, again: bool) -> None:
        """Keep the client for another reader if `again`, else close it. Blocks for a moment."""
        if again:
            consumer.unassign()
        with self._lock:
            self._used.discard(consumer)
            if again and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(consumer)
                return
        consumer.close()

    def close(self) -> None:
        """Close the idle clients; those in use are closed when their readers give them back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for consumer in idle:
            consumer.close()

    def handles(self) -> list[object]:
        """The clients, which a forked child must not free."""
        return [*self._idle, *self._used]


def _ignore(error: KafkaError) -> None:
    """The client retries by itself; a reader that gets no records asks the cluster why."""

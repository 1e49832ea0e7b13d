"""The clients that read: one for each open reader, and a few that wait for the next.

Lock: `_lock` guards the idle clients and is never held during a request.
"""

from confluent_kafka import Consumer, KafkaError

from cordwood.locks import new_lock

from .settings import Settings

_IDLE_MAX = 4


class Consumers:
    """Making a client costs threads, a connection and several requests, so that a short read takes one that is there.

    Those of followers are not used again: a broker holds their last request until something is written, and answers no
    other one before.
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
        """A new one, that nothing has happened to."""
        with self._lock:
            consumer = Consumer(self._settings.consumer(follow, _ignore))
            self._used.add(consumer)
        return consumer

    def give_back(self, consumer: Consumer, again: bool) -> None:
        """Blocks a moment; `again`: it may serve another reader."""
        if again:
            consumer.unassign()
        with self._lock:
            self._used.discard(consumer)
            if again and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(consumer)
                return
        consumer.close()

    def close(self) -> None:
        """Close what is idle; what is still used is closed when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for consumer in idle:
            consumer.close()

    def handles(self) -> list[object]:
        """What must not be freed in a forked child."""
        return [*self._idle, *self._used]


def _ignore(error: KafkaError) -> None:
    """A client goes on by itself; a reader that gets nothing asks the cluster why."""

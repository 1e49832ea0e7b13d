"""The client for all that is no record, which is replaced when it has lost its way.

Lock: `_lock` guards which client is the current one and is never held during a request.
"""

import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from cordwood.locks import new_lock

from .deadline import ATTEMPT_SECONDS
from .errors import kafka_error, translate
from .settings import Settings

_LOGGER = logging.getLogger("cordwood.kafka")


class Admin:
    """Ask `client` each time.

    A broker that its controller takes for dead for a moment says that there are no brokers. librdkafka then forgets the
    last one that it knew, and may never again look at those of its settings (its issue 5301).
    """

    def __init__(self, settings: Settings, on_error: Callable[[KafkaError], None]) -> None:
        self._settings = settings
        self._on_error = on_error
        self._lock = new_lock("kafka.admin")
        self.client = self._make_client()

    def renew(self) -> None:
        """It has not answered in the time of an attempt. Many find that out at once, and one new client is enough."""
        with self._lock:
            if time.monotonic() - self._since >= ATTEMPT_SECONDS:
                _LOGGER.info(
                    "kafka://%s: reconnected: a new client asks, since the last one got no answer",
                    ",".join(self._settings.servers),
                )
                self.client = self._make_client()

    def _make_client(self) -> AdminClient:
        self._since = time.monotonic()
        try:
            return AdminClient(self._settings.admin(self._on_error))
        except KafkaException as error:
            raise translate(kafka_error(error), "the settings of kafka://", self._settings) from None

"""The admin client, for all requests that carry no records. It is replaced when it no longer gets answers.

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
    """Callers read `client` for each request, since it may be replaced.

    A broker that its controller treats as dead for a moment reports an empty list of brokers. librdkafka then forgets
    the last broker that it knew, and may never try those of its settings again (its issue 5301).
    """

    def __init__(self, settings: Settings, on_error: Callable[[KafkaError], None]) -> None:
        self._settings = settings
        self._on_error = on_error
        self._lock = new_lock("kafka.admin")
        self.client = self._make_client()

    def renew(self) -> None:
        """Replace a client that did not answer within an attempt. One is enough for all callers that notice at once."""
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

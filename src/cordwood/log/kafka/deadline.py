"""How much of a call's time is left, and how it is divided into attempts."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from cordwood.errors import Timeout

T = TypeVar("T")

_LOGGER = logging.getLogger("cordwood.kafka")

ATTEMPT_SECONDS = 2.0
"""A request to a broker that has just died is not answered: after so long another one is asked."""

FORGOTTEN_SECONDS = 1.0
"""librdkafka ends a request in its time; one that it has not ended so long after is not waited for any more."""

_QUIET_SECONDS = 5.0
"""A call that has asked for so long and got no answer says so; and again after twice the time."""

REQUEST_SECONDS_MAX = 3600.0
"""What librdkafka takes for one request."""


def seconds_left(what: str, deadline: float) -> float:
    """Until `deadline`, by the monotonic clock; `Timeout` once there is nothing left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout(f"{what} took more than the time given: see that the brokers run, and try again")
    # librdkafka counts in milliseconds, and takes 0 for no wait at all.
    return min(max(left, 0.001), REQUEST_SECONDS_MAX)


def attempts(what: str, deadline: float, renew: Callable[[], None]) -> Iterator[float]:
    """How long each attempt may take, and `Timeout` instead of one that comes too late. Longer each time: a broker may
    be slow, and each attempt asks it anew.

    After one that got no answer in its time a new client is to ask: the old one may have lost its way.
    """
    seconds = ATTEMPT_SECONDS
    begun, quiet = time.monotonic(), _QUIET_SECONDS
    while True:
        left = seconds_left(what, deadline)
        if (waited := time.monotonic() - begun) >= quiet:
            _LOGGER.warning("%s: no answer for %.0f s: asking again, for at most %.0f s more", what, waited, left)
            quiet = 2 * waited
        given, asked = min(seconds, left), time.monotonic()
        yield given
        if time.monotonic() - asked >= given:
            renew()
        seconds *= 2


def answer(what: str, asked: "Future[T]", seconds: float) -> T:
    """What came of a request that was given so many seconds; one that is never ended was not answered in time."""
    try:
        return asked.result(seconds + FORGOTTEN_SECONDS)
    except TimeoutError:
        if asked.done():  # its own error, or it has just ended
            return asked.result()
        _LOGGER.warning("%s: the client has not ended a request of %g s", what, seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

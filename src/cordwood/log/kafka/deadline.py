"""The time that a call has left, and its division into attempts."""

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
"""A broker that has just died does not answer: after so long the call asks another one."""

FORGOTTEN_SECONDS = 1.0
"""librdkafka ends a request at its timeout; so long after it, the call stops waiting."""

_QUIET_SECONDS = 5.0
"""A call that gets no answer for so long logs it, and again after twice the time."""

REQUEST_SECONDS_MAX = 3600.0
"""The longest timeout of a request that librdkafka accepts."""


def seconds_left(what: str, deadline: float) -> float:
    """The seconds until `deadline`, by the monotonic clock; raises `Timeout` after it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout(f"{what} took more than the time given: see that the brokers run, and try again")
    # librdkafka counts in milliseconds, and treats 0 as no wait at all.
    return min(max(left, 0.001), REQUEST_SECONDS_MAX)


def attempts(what: str, deadline: float, renew: Callable[[], None]) -> Iterator[float]:
    """Yield the seconds of each attempt; raise `Timeout` after the deadline.

    Each attempt is longer than the last one: a broker may be slow, and each attempt repeats the request.
    After an attempt without an answer `renew` makes a new client: the old one may be stuck.
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
    """Return the result of a request with this timeout; a request that librdkafka never ends counts as timed out."""
    try:
        return asked.result(seconds + FORGOTTEN_SECONDS)
    except TimeoutError:
        if asked.done():  # a TimeoutError of its own, or it has just ended
            return asked.result()
        _LOGGER.warning("%s: the client has not ended a request of %g s", what, seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

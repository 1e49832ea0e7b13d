"""How much of a call's time is left."""

import time

from cordwood.errors import Timeout


def seconds_left(what: str, deadline: float) -> float:
    """Until `deadline`, by the monotonic clock; `Timeout` once there is nothing left."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout(f"{what} took more than the time given: see that the brokers run, and try again")
    return max(left, 0.001)  # librdkafka counts in milliseconds, and takes 0 for no wait at all

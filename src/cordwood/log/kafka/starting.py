"""The checks before a read begins: the topic is the named one, and its logs have the starts. Blocking."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from cordwood.errors import Conflict, CordwoodError, Timeout
from cordwood.log.arguments import beyond_end
from cordwood.log.interface import Follow

from .cluster import Bounds, SharedCluster
from .cursor import AGREE_SECONDS
from .same_topic import SameTopic

_BEYOND_END_SECONDS = 0.02
_LOOK_AGAIN_SECONDS = 0.25


def check_named(name: str, same_topic: SameTopic, wanted: Callable[[], bool]) -> None:
    """Raise `Conflict` if the topic is another one, once a second look-up agrees: a broker may lag."""
    agreed = time.monotonic() + AGREE_SECONDS
    while True:
        last = time.monotonic() >= agreed or not wanted()
        try:
            same_topic.check(name)
            return
        except Conflict:
            if last:
                raise
        time.sleep(_LOOK_AGAIN_SECONDS)


def wait_for_starts(
    cluster: SharedCluster,
    topic: str,
    starts: Mapping[int, int],
    follow: Follow,
    same_topic: SameTopic,
    wanted: Callable[[], bool],
    *,
    uncommitted: bool = False,
) -> Bounds:
    """Return the bounds, once each log is as long as its start.

    A reader that does not wait for that raises `InvalidInput`, once a second look-up agrees: a new leader may not know
    the end yet.
    """
    agreed = time.monotonic() + AGREE_SECONDS
    pause = _BEYOND_END_SECONDS
    bounds: Bounds = {}
    while wanted():
        time.sleep(pause)
        pause = min(2 * pause, _LOOK_AGAIN_SECONDS)
        last = time.monotonic() >= agreed
        bounds = cluster.offsets.bounds_of(topic, starts, cluster.settings.timeout, uncommitted=uncommitted)
        # After that look-up: a new topic that is long enough must not pass for the one that the reader waits for.
        same_topic.check(topic)
        beyond = [partition for partition, start in starts.items() if start > bounds[partition][1]]
        if not beyond:
            break
        if last and follow != "wait":
            raise beyond_end(f"{topic}/{beyond[0]}", starts[beyond[0]], bounds[beyond[0]][1])
    return bounds


def wait_for_bounds(name: str, bounds: "Future[Bounds]", timeout: float) -> Bounds:
    """Within the connection's timeout, which includes the time that the look-up waits for longer calls."""
    try:
        return bounds.result(timeout)
    except TimeoutError as error:
        if isinstance(error, CordwoodError):
            raise
        raise Timeout(f"{name}: where the log ends was not found within {timeout} s: try again") from error

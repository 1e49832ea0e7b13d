"""A caller that waits for a log to grow is woken, also if it grows at that very moment."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.stream.stream import Stream
from tests.support.folder.one_log import OneLog


class Watched(Stream):
    """Lets something happen once, just after somebody has looked how far it is durable."""

    then: Callable[[], None] | None

    @property
    def durable(self) -> Durable:
        found: Durable = self.__dict__["durable"]
        then, self.then = self.then, None
        if then is not None:
            then()
        return found

    @durable.setter
    def durable(self, durable: Durable) -> None:
        self.__dict__["durable"] = durable


def test_a_log_that_grows_while_somebody_begins_to_wait_for_it_tells_so() -> None:
    one = OneLog()
    stream = one.log.stream
    assert stream is not None
    with ThreadPoolExecutor(1) as writer:
        growths: list[Future[None]] = []

        def grow() -> None:
            one.submit(b"second")
            growths.append(writer.submit(one.run))
            wait(growths, 0.2)  # it may have to wait until the other has begun

        stream.__class__ = Watched
        stream.then = grow  # type: ignore[attr-defined]  # of the class that it has now
        told: list[bool] = []
        one.log.when_grown(1, lambda: told.append(True))
    growths[0].result()
    assert one.values() == [b"first", b"second"]
    assert told == [True]


def test_a_log_that_has_grown_before_tells_so_once() -> None:
    one = OneLog()
    told: list[bool] = []
    one.log.when_grown(0, lambda: told.append(True))
    one.submit(b"second")
    one.run()
    assert told == [True]

"""One append on its way: records go to the client one by one, reports come back, and make up its result."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain, repeat
from operator import attrgetter, length_hint
from typing import Any

from confluent_kafka import KafkaError, Message

from cordwood.errors import CordwoodError
from cordwood.records import Batch

CHUNK_RECORDS = 1000
"""So many records are handed over before reports are looked at: about a millisecond."""

Produce = Callable[..., None]

_loop_of = attrgetter("loop")


class Append:
    """A batch for one log, its caller, and, once it is decided, `result` (the offsets) or `error`.

    Its records are handed over by C loops over the client's `produce`; the only Python for each of them is the client's
    callback with its report. Reports of a log come in the order of its records, so the one of the last record tells
    that all may be there; only where a record failed are they counted again.
    """

    __slots__ = (
        "_rows",
        "batch",
        "count",
        "cut",
        "deadline",
        "error",
        "errors",
        "future",
        "loop",
        "offsets",
        "partition",
        "result",
        "sent",
        "topic",
        "weight",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        batch: Batch,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Sequence[int]]",
        deadline: float,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.batch = batch
        self.count = len(batch)
        self.weight = batch.weight
        self.loop = loop
        self.future = future
        self.deadline = deadline
        self.sent = 0
        self.cut = False
        """The rest of its records is not sent any more."""
        self.offsets: list[int] = []
        self.errors: list[KafkaError] = []
        self.result: Sequence[int] | None = None
        self.error: CordwoodError | None = None
        self._rows: tuple[Any, Any, Any, Any] | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}: append"

    @property
    def handed_over(self) -> bool:
        return self.cut or self.sent == self.count

    @property
    def reported(self) -> bool:
        """Whether every record that was sent has its report."""
        return self.handed_over and len(self.offsets) + len(self.errors) == self.sent

    def send(self, produce: Produce, records: int, finished: "Callable[[Append], None]") -> None:
        """Hand over the next records. A BufferError or KafkaException of the client comes through: the record that it
        is about was not taken, those before it were."""
        if self._rows is None:
            self._rows = _lists(self.batch)
        first, stop = self.sent, min(self.sent + records, self.count)
        window = slice(first, stop)
        values, keys, headers, stamps = self._rows
        rows = iter(values[window])
        columns: list[Iterable[Any]] = [
            repeat(self.topic),
            rows,
            repeat(None) if keys is None else keys[window],
            repeat(self.partition),
            self._reporters(stop, finished),
        ]
        if headers is not None or stamps is not None:
            columns += [
                repeat(None),
                repeat(0) if stamps is None else stamps[window],  # 0: the client takes the time
                repeat(None) if headers is None else map(list, headers[window]),
            ]
        try:
            deque(map(produce, *columns), maxlen=0)
        except BaseException:
            self.sent = stop - length_hint(rows) - 1
            raise
        self.sent = stop
        if stop == self.count:
            self._rows = None

    def _reporters(self, stop: int, finished: "Callable[[Append], None]") -> Iterator[Callable[[Any, Any], None]]:
        """The callback of each record."""
        took, failed = self.offsets.append, self.errors.append

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                took(message.offset())  # type: ignore[arg-type]  # what was delivered has one
            else:
                failed(error)

        if stop < self.count:
            return repeat(report)

        def last_report(error: KafkaError | None, message: Message) -> None:
            report(error, message)
            finished(self)

        return chain(repeat(report, stop - self.sent - 1), (last_report,))

    def succeed(self) -> None:
        """Every record was delivered: the offsets, as a range where nobody else wrote in between."""
        offsets = self.offsets
        first, last = offsets[0], offsets[-1]
        self.result = range(first, last + 1) if last - first == self.count - 1 else offsets

    def fail(self, error: CordwoodError) -> None:
        # Each caller raises its own: a shared exception would collect everybody's tracebacks.
        self.error = copy(error)
        self.error.__cause__ = error.__cause__


def tell(appends: list[Append]) -> None:
    """Complete the callers' futures: one wake-up for each event loop."""
    for loop in set(map(_loop_of, appends)):
        group = [append for append in appends if append.loop is loop]
        try:
            loop.call_soon_threadsafe(_complete, group)
        except RuntimeError:
            # The loop is closed: nobody waits any more, and what was written stands.
            continue


def _complete(appends: list[Append]) -> None:
    for append in appends:
        if append.future.done():
            continue
        if append.error is not None:
            append.future.set_exception(append.error)
        elif append.result is not None:
            append.future.set_result(append.result)


def _lists(batch: Batch) -> tuple[Any, Any, Any, Any]:
    values, keys, headers, stamps = batch.rows()
    return _list(values), None if keys is None else _list(keys), headers, stamps


def _list(rows: Sequence[bytes | None]) -> list[bytes | None]:
    return rows if isinstance(rows, list) else list(rows)

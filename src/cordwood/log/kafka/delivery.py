"""One append under way: its records go to the client one by one, and their reports make up its result."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from operator import length_hint
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cordwood.log.calls.completion import PendingCall, Waiter
from cordwood.records import Batch

CHUNK_RECORDS = 1000
"""The sender hands over so many records before it polls for reports: about a millisecond."""


class Append(PendingCall):
    """A batch for one log, its caller, and, once decided, `result` (the offsets) or `error`.

    C loops over the client's `produce` hand the records over; the only Python for each of them is the callback with its
    report. Reports of a log come in the order of its records, so the last record's report means that all may be there.
    Only after a failed record they are counted again.
    """

    __slots__ = (
        "_report",
        "_rows",
        "batch",
        "count",
        "cut",
        "deadline",
        "errors",
        "given_up",
        "offsets",
        "partition",
        "sent",
        "topic",
        "weight",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        batch: Batch,
        waiter: Waiter,
        notify: "Callable[[list[Append]], None]",
        deadline: float,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.batch = batch
        self.count = len(batch)
        self.weight = batch.weight
        self.waiter = waiter
        self.notify = notify
        self.deadline = deadline
        """When the caller gets a `Timeout`."""
        self.given_up = deadline
        """Until when the client may still send its records."""
        self.sent = 0
        self.cut = False
        """The rest of its records will not be sent."""
        self.offsets: list[int | None] = []
        self.errors: list[KafkaError] = []
        self.result = None
        self.error = None
        self._rows: tuple[Any, Any, Any, Any] | None = None
        self._report = self._new_report()

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}: append"

    @property
    def handed_over(self) -> bool:
        return self.cut or self.sent == self.count

    @property
    def outstanding(self) -> bool:
        """Whether the client has records of this append without a report."""
        return len(self.offsets) + len(self.errors) < self.sent

    @property
    def reported(self) -> bool:
        """Whether no more records will be sent, and every sent one has its report."""
        return self.handed_over and not self.outstanding

    def send(self, producer: Producer, records: int, finished: "Callable[[Append], None]") -> None:
        """Hand over the next records. Raises the client's BufferError or KafkaException: the client took the records
        before the one that the error is about."""
        if self._rows is None:
            self._rows = _lists(self.batch)
        stop = min(self.sent + records, self.count)
        _, _, headers, stamps = self._rows
        if headers is None and stamps is None and stop - self.sent > 1:
            self._send_together(producer, stop, finished)
        else:
            self._send_each(producer, stop, finished)
        if stop == self.count:
            self._rows = None

    def _send_together(self, producer: Producer, stop: int, finished: "Callable[[Append], None]") -> None:
        """One call, which puts more records into the first request, but takes neither headers nor timestamps."""
        assert self._rows is not None
        window = slice(self.sent, stop)
        values, keys, _, _ = self._rows
        if keys is None:
            messages: list[dict[str, Any]] = [{"value": value} for value in values[window]]
        else:
            messages = [{"value": value, "key": key} for value, key in zip(values[window], keys[window], strict=True)]
        report = self._report
        if stop == self.count:
            messages[-1]["callback"] = self._last_report(finished)
        self.sent += (taken := producer.produce_batch(self.topic, messages, self.partition, report))
        if taken < len(messages):
            error: KafkaError = messages[taken]["_error"]
            raise BufferError if error.code() == KafkaError._QUEUE_FULL else KafkaException(error)

    def _send_each(self, producer: Producer, stop: int, finished: "Callable[[Append], None]") -> None:
        assert self._rows is not None
        window = slice(self.sent, stop)
        values, keys, headers, stamps = self._rows
        rows = iter(values[window])
        callbacks: Iterable[Any] = repeat(self._report)
        if stop == self.count:
            callbacks = chain(repeat(self._report, stop - self.sent - 1), (self._last_report(finished),))
        columns: list[Iterable[Any]] = [
            repeat(self.topic),
            rows,
            repeat(None) if keys is None else keys[window],
            repeat(self.partition),
            callbacks,
            repeat(None),
            repeat(0) if stamps is None else stamps[window],  # 0: the client sets the time
            repeat(None) if headers is None else map(list, headers[window]),
        ]
        try:
            deque(map(producer.produce, *columns), maxlen=0)
        except BaseException:
            self.sent = stop - length_hint(rows) - 1
            raise
        self.sent = stop

    def _new_report(self) -> Callable[[Any, Any], None]:
        """The callback of a record."""
        took, failed = self.offsets.append, self.errors.append

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                took(message.offset())
            else:
                failed(error)

        return report

    def _last_report(self, finished: "Callable[[Append], None]") -> Callable[[Any, Any], None]:
        """The callback of the last record."""
        report = self._report

        def last_report(error: KafkaError | None, message: Message) -> None:
            report(error, message)
            finished(self)

        return last_report

    def succeed(self) -> bool:
        """Set `result` to the offsets, as a range if no other writer came in between; False if an offset is unknown.

        Where a broker's answer was lost, and the client concludes from a later one that a record is written, the report
        has no offset.
        """
        offsets = self.offsets
        first, last = offsets[0], offsets[-1]
        if first is not None and last is not None and last - first == self.count - 1:
            self.result = range(first, last + 1)
        elif None not in offsets:
            self.result = cast(list[int], offsets)
        return self.result is not None


def _lists(batch: Batch) -> tuple[Any, Any, Any, Any]:
    values, keys, headers, stamps = batch.rows()
    return _list(values), None if keys is None else _list(keys), headers, stamps


def _list(rows: Sequence[bytes | None]) -> list[bytes | None]:
    return rows if isinstance(rows, list) else list(rows)

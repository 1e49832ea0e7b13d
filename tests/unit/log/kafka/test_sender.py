"""The thread that writes to Kafka, without a broker."""

import threading
from concurrent.futures import Future

import pytest

from cordwood.errors import Unavailable
from cordwood.log.calls.completion import complete
from cordwood.log.kafka.delivery import Append
from cordwood.log.kafka.producer import Sender
from cordwood.log.kafka.settings import Settings
from cordwood.records import Batch
from cordwood.url import KafkaUrl


def test_a_sender_that_ends_wakes_callers_that_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    may_fail, woken = threading.Event(), threading.Event()

    def fail(sender: Sender) -> None:
        assert may_fail.wait(30)
        raise ZeroDivisionError

    monkeypatch.setattr(Sender, "_round", fail)
    sender = Sender(Settings.of(KafkaUrl(("127.0.0.1:1",)), 30), 1_000_000, lambda topic: None)
    sender._handing_over = True  # the thread hands over a large append: the next one queues whole
    answer: Future[range] = Future()
    append = Append("events", 0, Batch.of([b"x"] * 100), answer, complete, float("inf"))
    assert sender.submit(append)
    sender.when_room(woken.set)
    assert not woken.is_set()
    may_fail.set()
    assert woken.wait(30)
    with pytest.raises(Unavailable, match="closed"):
        answer.result(30)
    with pytest.raises(Unavailable, match="the connection is closed"):
        sender.submit(append)

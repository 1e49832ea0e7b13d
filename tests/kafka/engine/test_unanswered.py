"""Requests that the client never ends, and clients that take long to let go of."""

import asyncio
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from cordwood import Batch, Log, Timeout
from cordwood.log.kafka import deadline
from cordwood.log.kafka.consumers import Consumers


async def test_a_request_that_the_client_never_ends_is_asked_again(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await log.append(Batch.of([b"0"]))
    forgotten: Future[Any] = Future()
    answer, asked = deadline.answer, []

    def first_is_forgotten(what: str, future: "Future[Any]", seconds: float) -> Any:
        asked.append(what)
        return answer(what, forgotten if len(asked) == 1 else future, 0.1 if len(asked) == 1 else seconds)

    monkeypatch.setattr("cordwood.log.kafka.offsets.answer", first_is_forgotten)
    assert await log.bounds() == (0, 1)
    assert len(asked) > 2
    assert "the client has not ended a request" in caplog.text


async def test_a_read_ends_though_its_client_is_still_being_let_go_of(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(Batch.of([b"0"]))
    let_go, give_back = threading.Event(), Consumers.give_back

    def late(consumers: Consumers, consumer: Any, again: bool) -> None:
        let_go.wait(60)
        give_back(consumers, consumer, again)

    monkeypatch.setattr(Consumers, "give_back", late)
    try:
        async with asyncio.timeout(30):
            assert [value async for batch in log.read() for value in batch.values] == [b"0"]
    finally:
        let_go.set()


def test_a_call_that_gets_no_answer_says_so_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now))
    tries = deadline.attempts("t/0: bounds", now + 30)
    given: list[float] = []
    said: list[tuple[float, str]] = []
    while now < 129:
        caplog.clear()
        given.append(next(tries))
        said += [(now - 100, record.getMessage()) for record in caplog.records]
        now += 0.5
    assert given[:5] == [2, 4, 8, 16, 28]
    assert said == [
        (5, "t/0: bounds: no answer for 5 s: asking again, for at most 25 s more"),
        (10, "t/0: bounds: no answer for 10 s: asking again, for at most 20 s more"),
        (20, "t/0: bounds: no answer for 20 s: asking again, for at most 10 s more"),
    ]
    now = 130
    with pytest.raises(Timeout, match="t/0: bounds took more than the time given"):
        next(tries)

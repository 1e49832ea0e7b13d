"""Requests that the client never ends, and clients that take long to let go of."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from cordwood import Batch, Log
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

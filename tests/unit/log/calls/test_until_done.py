"""Calls that end when the engine says so: all of it has the caller's time, once."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cordwood.errors import Timeout
from cordwood.log.calls.threads import call_until_done
from cordwood.log.native.env.workers import Done


async def test_the_end_of_a_call_has_the_time_that_its_beginning_left(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float | None] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        given.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(asyncio, "timeout", noted)

    def begin(done: Done) -> None:
        time.sleep(0.02)
        done()

    with ThreadPoolExecutor(1) as executor:
        await call_until_done(executor, 30, "a trim", begin)
    first, second = given
    assert first == 30
    assert second is not None
    assert second <= 30 - 0.02


async def test_a_call_whose_end_does_not_come_is_a_timeout() -> None:
    said = r"a trim timed out after 0\.01 s: it is still in progress, and may complete"
    with ThreadPoolExecutor(1) as executor, pytest.raises(Timeout, match=said):
        await call_until_done(executor, 0.01, "a trim", lambda done: None)

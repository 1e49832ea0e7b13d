"""Calls that end when the engine says so: all of it has the caller's time, once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from cordwood.errors import Timeout
from cordwood.log.native.api.bridge import call_until_done
from cordwood.log.native.env.workers import Done


async def test_what_a_call_has_used_up_of_its_time_is_not_there_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float | None] = []
    timeout_at = asyncio.timeout_at

    def noted(when: float | None) -> asyncio.Timeout:
        deadlines.append(when)
        return timeout_at(when)

    monkeypatch.setattr(asyncio, "timeout_at", noted)
    loop = asyncio.get_running_loop()
    begun: list[float] = []

    def begin(done: Done) -> None:
        begun.append(loop.time())
        done()

    with ThreadPoolExecutor(1) as executor:
        await call_until_done(executor, 30, "a trim", begin)
    (deadline,) = deadlines
    assert deadline is not None
    assert deadline <= begun[0] + 30


async def test_a_call_whose_end_does_not_come_is_a_timeout() -> None:
    said = r"a trim took more than 0\.01 s: it is begun, and goes on when the disk has answered"
    with ThreadPoolExecutor(1) as executor, pytest.raises(Timeout, match=said):
        await call_until_done(executor, 0.01, "a trim", lambda done: None)

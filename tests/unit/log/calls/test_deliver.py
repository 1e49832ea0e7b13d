"""One wake-up for each event loop a group, however many appends of it share the sync."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from cordwood.log.calls.completion import LoopNotifier, deliver, notifier_of
from cordwood.log.native.stream.append import Append
from cordwood.records import Batch


def test_each_caller_is_told_once_of_all_that_is_its_own() -> None:
    told: list[tuple[str, list[Append]]] = []
    first, second = tell(told, "first"), tell(told, "second")
    appends = [append(notify, Future()) for notify in (first, second, first, first, second)]
    deliver(appends)
    assert sorted(told, key=lambda call: call[0]) == [
        ("first", [appends[0], appends[2], appends[3]]),
        ("second", [appends[1], appends[4]]),
    ]


async def test_a_loop_is_woken_once_for_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wake_ups: list[object] = []
    actual = loop.call_soon_threadsafe

    def counted(callback: Callable[..., object], *args: object) -> asyncio.Handle:
        wake_ups.append(callback)
        return actual(callback, *args)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    notify = LoopNotifier(loop)
    waiting: list[asyncio.Future[range]] = [loop.create_future() for _ in range(100)]
    appends = [append(notify, future) for future in waiting]
    for number, done in enumerate(appends):
        done.result = range(number, number + 1)
    deliver(appends)
    assert len(wake_ups) == 1
    assert await asyncio.gather(*waiting) == [range(number, number + 1) for number in range(100)]


def append(notify: Callable[[list[Append]], None], waiter: "Future[range] | asyncio.Future[range]") -> Append:
    return Append(Batch.of([b"x"]), 1, waiter, notify, deadline=0)


def tell(told: list[tuple[str, list[Append]]], name: str) -> Callable[[list[Append]], None]:
    return lambda appends: told.append((name, appends))


async def test_a_loop_has_one_notifier_for_all_its_logs() -> None:
    loop = asyncio.get_running_loop()
    assert notifier_of(loop) is notifier_of(loop)


def test_the_calls_of_a_closed_loop_are_forgotten() -> None:
    loop = asyncio.new_event_loop()
    call = append(notifier_of(loop), loop.create_future())
    loop.close()
    deliver([call])

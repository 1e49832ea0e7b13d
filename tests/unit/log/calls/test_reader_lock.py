import asyncio
import threading

import pytest

from cordwood.errors import CordwoodError
from cordwood.log.calls.reader_lock import Turns


async def three_at_once(turns: Turns, order: list[int]) -> None:
    async def one(number: int) -> None:
        async with turns.here():
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*map(one, range(3)))


def test_tasks_wait_for_each_other_also_in_a_later_loop() -> None:
    turns, order = Turns(), list[int]()
    for _ in range(2):
        asyncio.run(three_at_once(turns, order))
    assert order == [0, 1, 2] * 2


def test_a_turn_that_was_lost_with_its_loop_is_free() -> None:
    turns, order = Turns(), list[int]()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(turns_taken(turns))
    loop.close()
    asyncio.run(three_at_once(turns, order))
    assert order == [0, 1, 2]


async def turns_taken(turns: Turns) -> None:
    await turns.here().acquire()


def test_a_loop_beside_the_one_that_has_the_turn_is_refused() -> None:
    turns, taken, refused = Turns(), threading.Event(), threading.Event()

    async def wait_for_the_other() -> None:
        async with turns.here():
            taken.set()
            await asyncio.to_thread(refused.wait, 60)

    other = threading.Thread(target=asyncio.run, args=[wait_for_the_other()])
    other.start()
    assert taken.wait(60)
    try:
        with pytest.raises(CordwoodError, match="a reader of its own"):
            asyncio.run(three_at_once(turns, []))
    finally:
        refused.set()
        other.join(60)

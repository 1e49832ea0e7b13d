"""A deadline turns the end of its time into the caller's `Timeout`, and nothing else."""

import asyncio

import pytest

from cordwood.errors import Timeout
from cordwood.log.calls.deadline import deadline


def late() -> Timeout:
    return Timeout("the call took too long", outcome="unknown")


async def test_the_end_of_the_time_raises_the_error_of_the_call() -> None:
    with pytest.raises(Timeout, match="the call took too long") as caught:
        async with deadline(0.001, late):
            await asyncio.sleep(10)
    assert caught.value.outcome == "unknown"
    assert isinstance(caught.value.__cause__, TimeoutError)


async def test_a_timeout_of_the_block_itself_passes_through() -> None:
    with pytest.raises(Timeout, match="the disk did not answer"):
        async with deadline(10, late):
            raise Timeout("the disk did not answer")


async def test_a_timeout_of_the_system_is_not_the_end_of_the_time() -> None:
    with pytest.raises(TimeoutError, match="ETIMEDOUT") as caught:
        async with deadline(10, late):
            raise TimeoutError(110, "ETIMEDOUT")
    assert not isinstance(caught.value, Timeout)


async def test_without_seconds_it_never_ends() -> None:
    async with deadline(None, late):
        await asyncio.sleep(0)

"""Each fault of a faulty log: the records that it leaves, and the answer of its caller."""

from collections.abc import Sequence

import pytest

from cordwood.errors import Conflict, CordwoodError, InvalidInput, Timeout, Unavailable
from cordwood.log import Log, TopicConfig
from cordwood.records import Batch
from cordwood.simulation.faulty_log import FAULTS, FaultyEngine
from cordwood.simulation.memory import MemoryEngine, MemoryStore


async def engine_with(*faults: str, odds: float = 1) -> FaultyEngine:
    engine = FaultyEngine(MemoryEngine(MemoryStore()), 0, odds, faults, part="events")
    for topic in ("events", "others"):
        await engine.create_topic(topic, TopicConfig(), exist_ok=False, timeout=1)
    return engine


async def append(log: Log, *values: bytes, expected: int | None = None) -> Sequence[int] | CordwoodError:
    try:
        return await log.append(Batch.of(values), expected=expected)
    except CordwoodError as error:
        return error


async def values_of(log: Log) -> list[bytes | None]:
    return [value async for batch in log.read() for value in batch.values]


@pytest.mark.parametrize(
    ("fault", "left"),
    [("lost", []), ("lost, but written", [b"a", b"b"]), ("late", [b"a", b"b"]), ("prefix", [b"a"])],
)
async def test_the_outcome_of_an_append_without_an_answer_is_unknown(fault: str, left: list[bytes]) -> None:
    engine = await engine_with(fault)
    log = engine.log("events", 0, timeout=1)
    answer = await append(log, b"a", b"b", expected=0)
    assert isinstance(answer, Timeout)
    assert answer.outcome == "unknown"
    await engine.settle()
    assert await values_of(log) == left
    assert engine.logs[0].made == [fault]


async def test_a_refused_append_is_not_written() -> None:
    log = (await engine_with("refused")).log("events", 0, timeout=1)
    answer = await append(log, b"a")
    assert isinstance(answer, Unavailable)
    assert answer.outcome == "not_written"
    assert await values_of(log) == []


async def test_a_doubled_append_returns_the_offsets_of_its_second_copy() -> None:
    log = (await engine_with("twice")).log("events", 0, timeout=1)
    assert await append(log, b"a", b"b", expected=0) == range(2, 4)
    assert await values_of(log) == [b"a", b"b", b"a", b"b"]


async def test_an_append_comes_after_the_one_that_overtook_it() -> None:
    engine = await engine_with("late")
    log = engine.log("events", 0, timeout=1)
    await append(log, b"a")
    engine.heal()
    assert await append(log, b"b") == range(1)
    await engine.settle()
    assert await values_of(log) == [b"b", b"a"]


async def test_a_late_append_that_finds_another_offset_is_dropped() -> None:
    engine = await engine_with("late")
    log = engine.log("events", 0, timeout=1)
    await append(log, b"a", expected=0)
    engine.heal()
    await append(log, b"b")
    await engine.settle()
    assert await values_of(log) == [b"b"]


async def test_without_a_fault_the_expected_offset_holds() -> None:
    log = (await engine_with(*FAULTS, odds=0)).log("events", 0, timeout=1)
    assert isinstance(await append(log, b"a", expected=1), Conflict)
    assert await append(log, b"a", expected=0) == range(1)


async def test_other_topics_have_no_faults() -> None:
    engine = await engine_with("refused")
    assert await append(engine.log("others", 0, timeout=1), b"a") == range(1)
    assert engine.logs == []


async def test_an_unknown_fault_is_invalid() -> None:
    with pytest.raises(InvalidInput, match="los"):
        await engine_with("los")

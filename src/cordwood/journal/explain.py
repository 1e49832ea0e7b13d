"""Every action of a key that the log still has, with its verdict."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from cordwood.store import HeadRow

from .action import Append, Delete, Mark, Purge
from .fold import Poison, step
from .look import Key, Looks, told_of
from .tail import Tail
from .topic import JournalTopic


@dataclass(frozen=True, slots=True)
class ExplainedAction:
    """One action of a journal, and what became of it.

    >>> ExplainedAction(0, 17, "append", range(1, 3), True, None, "5a74ac36", False, "command-42", None).counted
    True
    """

    partition: int
    offset: int
    kind: str
    """`append`, `mark`, `delete`, `purge` or `poison`."""
    range: range | None
    """The numbers that it names: those of an append, or those that a delete reaches."""
    counted: bool | None
    """None if the log was trimmed before the actions that decide it."""
    winner: str | None
    """The id of the append that had taken the numbers of one that lost."""
    life: str | None
    """The life of the journal after the action."""
    replicated: bool
    id: str | None
    """The append's own id."""
    reason: str | None
    """Why a record is poison."""


class Explainer:
    """Explains keys of one topic."""

    def __init__(self, topic: JournalTopic, tail: Tail, looks: Looks) -> None:
        self._topic = topic
        self._tail = tail
        self._looks = looks

    async def explain(self, key: Key) -> AsyncIterator[ExplainedAction]:
        log = self._topic.log(key.partition)
        look = await self._looks.in_time(key)
        await self._tail.refresh_pointers()
        pointer = self._tail.pointer(key.partition)
        start, _ = await log.bounds()
        state: HeadRow | None = None
        known = start == 0
        takers: dict[int, str | None] = {}
        facts = self._topic.facts(key.partition)
        async with self._topic.read({key.partition: start}, {key.partition: look.fence}) as reader:
            async for batch in reader:
                _, keys, _, _ = batch.rows()
                for index in [index for index, found in enumerate(keys or ()) if found == key.bytes]:
                    record = batch[index]
                    told = told_of(record)
                    if told is None:
                        continue
                    if type(told) is Purge and told.life is None:
                        known = True  # after an unconditional Purge the journal is empty, whatever came before
                    if not known and look.row is not None and record.offset > look.row.offset:
                        state, known = look.row, True
                    before = state
                    verdict = step(state, told, record.offset, record.timestamp, facts)
                    state = verdict.state
                    if type(told) is Append and verdict.counted:
                        takers.update(dict.fromkeys(range(told.first, min(told.last, told.first + 1000) + 1), told.id))
                    if type(told) is Purge and verdict.counted:
                        takers.clear()
                    counted = verdict.counted if known else None
                    lost = type(told) is Append and counted is False
                    yield ExplainedAction(
                        key.partition,
                        record.offset,
                        _kind(told),
                        _range(told),
                        counted,
                        takers.get(told.first) if lost and isinstance(told, Append) else None,
                        (before.life if before is not None else None) if state is None else state.life,
                        record.offset <= pointer,
                        told.id if isinstance(told, (Append, Mark)) else None,
                        told.reason if isinstance(told, Poison) else None,
                    )


def _kind(told: object) -> str:
    return type(told).__name__.lower()


def _range(told: object) -> range | None:
    if isinstance(told, Append):
        return range(told.first, told.last + 1)
    if isinstance(told, Delete):
        return range(1, told.to + 1)
    return None

"""The two folds of the Scala library: which actions its replicator applies, and the head that its reader sees.

They are here for the golden cases alone. Cordwood itself uses `fold`, which differs where these two lose events (R27).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .action import Action, Append, Delete, Mark, Purge


@dataclass(frozen=True)
class AppendBatch:
    """Appends that are applied together; `offset` is that of the newest."""

    offset: int
    records: tuple[tuple[int, Append], ...]


@dataclass(frozen=True)
class DeleteBatch:
    """A Delete that is applied."""

    offset: int
    to: int
    origin: str | None = None


@dataclass(frozen=True)
class PurgeBatch:
    """A Purge that is applied; everything before it is not."""

    offset: int
    origin: str | None = None


Batch: TypeAlias = AppendBatch | DeleteBatch | PurgeBatch


def scala_batches(records: Sequence[tuple[int, Action]]) -> list[Batch]:
    """The batches of one key's (offset, action), in the order of their offsets: `Batch.of` of the Scala library.

    >>> scala_batches([(0, Append(1, 2)), (1, Delete(2)), (2, Delete(1))])[1:]
    [DeleteBatch(offset=1, to=2, origin=None)]
    """
    batches: list[Batch] = []  # oldest first; the records come newest first
    for offset, action in reversed(records):
        following = batches[0] if batches else None
        deleted = next((batch.to for batch in batches if isinstance(batch, DeleteBatch)), 0)
        match action:
            case Purge():
                return [PurgeBatch(offset, action.origin), *batches]
            case Delete():
                batch = DeleteBatch(offset, action.to, action.origin)
                if isinstance(following, DeleteBatch):
                    if action.to >= following.to:
                        batches[0] = batch
                elif deleted < action.to:
                    batches.insert(0, batch)
            case Append() if isinstance(following, AppendBatch):
                if deleted < action.last:
                    batches[0] = replace(following, records=((offset, action), *following.records))
            case Append():
                batches.insert(0, AppendBatch(offset, ((offset, action),)))
            case Mark():
                pass
    return batches


@dataclass(frozen=True)
class HeadEmpty:
    """The log has no action of the key."""


@dataclass(frozen=True)
class HeadPurge:
    """The last action that matters is a Purge."""


@dataclass(frozen=True)
class HeadDelete:
    """Only Deletes."""

    to: int


@dataclass(frozen=True)
class HeadAppend:
    """Appends since `offset`, up to `seq_nr`."""

    offset: int
    seq_nr: int
    delete_to: int | None = None


HeadInfo: TypeAlias = HeadEmpty | HeadPurge | HeadDelete | HeadAppend


def scala_head(records: Iterable[tuple[int, Action]], head: HeadInfo | None = None) -> HeadInfo:
    """The head after one key's (offset, action), in the order of their offsets: `HeadInfo` of the Scala library.

    >>> scala_head([(5, Append(1, 2)), (6, Delete(9))])
    HeadAppend(offset=5, seq_nr=2, delete_to=2)
    """
    head = HeadEmpty() if head is None else head
    for offset, action in records:
        match action:
            case Purge():
                head = HeadPurge()
            case Delete():
                head = _after_delete(head, action.to)
            case Append():
                head = _after_append(head, offset, action)
            case Mark():
                pass
    return head


def _after_delete(head: HeadInfo, to: int) -> HeadInfo:
    if isinstance(head, HeadAppend):
        return replace(head, delete_to=min(max(head.delete_to or 0, to), head.seq_nr))
    if isinstance(head, HeadDelete):
        return HeadDelete(max(head.to, to))
    return HeadDelete(to)


def _after_append(head: HeadInfo, offset: int, action: Append) -> HeadInfo:
    if isinstance(head, HeadAppend):
        return replace(head, seq_nr=action.last)
    if isinstance(head, HeadDelete) and action.first > 1:
        return HeadAppend(offset, action.last, min(action.first - 1, head.to))
    return HeadAppend(offset, action.last)

"""The state of a writer's path: whether it sends, and how it resolves an unknown outcome. Pure.

    WRITING --an append failed, or left a gap--> SUSPECT --all appends have returned--> RESOLVING
    RESOLVING --the log was read--> WRITING
              --it could not be read--> UNRESOLVED --a write waits--> RESOLVING
              --another owner has the region--> FENCED
              --the log lost records--> BROKEN

Closing is no state of it: a closed writer takes no more writes, and still decides those that it has. The meta log may
fence a region first; then new writes are refused, and those under way are decided as ever.
"""

from __future__ import annotations

from enum import Enum

from cordwood.errors import CordwoodError, Corrupt, Fenced


class WritePath(Enum):
    WRITING = "sends the writes that wait"
    SUSPECT = "sends nothing until all appends have returned"
    RESOLVING = "reads which of its writes are in the log, and sends nothing"
    UNRESOLVED = "does not know which of its writes are in the log"
    FENCED = "another owner has the region"
    BROKEN = "the log was replaced, or lost records that were read"


def after_append(*, odd: bool, all_returned: bool) -> WritePath:
    """The state after an append has returned; `odd`: one has failed or left a gap that is not resolved yet.

    R11: the writer reads only when all appends have returned: a late one would land after the records that it has read.

    >>> after_append(odd=True, all_returned=False)
    <WritePath.SUSPECT: 'sends nothing until all appends have returned'>
    """
    if not odd:
        return WritePath.WRITING
    return WritePath.RESOLVING if all_returned else WritePath.SUSPECT


def after_resolving(error: CordwoodError | None) -> WritePath:
    """The state after the log was read, or could not be.

    >>> after_resolving(None)
    <WritePath.WRITING: 'sends the writes that wait'>
    """
    if error is None:
        return WritePath.WRITING
    if isinstance(error, Fenced):
        return WritePath.FENCED
    return WritePath.BROKEN if isinstance(error, Corrupt) else WritePath.UNRESOLVED

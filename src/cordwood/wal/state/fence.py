"""Which records of a data log count: the same pure decision for the owner, for every reader, and after every crash.

An owner's id is the offset of its owner record. The log's order is the referee, so no transaction is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from cordwood.wal.record import NOBODY, OwnerRecord


@dataclass(slots=True)
class Fence:
    """Fed with all records of a data log in their order, from `start` on.

    In a log that was cut by force the owner records may be gone. Then the fence believes the highest owner that the
    rest of the log names.
    """

    ordered: ClassVar[bool] = True
    """Whether the numbers of a table only grow in what counts."""

    start: int = 0
    owner: int = NOBODY
    """The id of the last owner."""
    running_count: int = 0
    """How many entries were given numbers in this region: at least every table's last sequence number."""
    passed_over: tuple[int, ...] = ()
    """The offsets of records that could not be decoded, since the last one that counts."""
    session: int = 0
    """The opening that the last owner belongs to, and who that is; unknown where its record is gone."""
    who: str = "somebody"

    def take_owner(self, offset: int, record: OwnerRecord) -> bool:
        """Take the owner record, and return whether it counts; then later writes of earlier owners do not."""
        # R11: an owner may be fenced without knowing it. Its renewal must not take the region back.
        if record.renews not in (NOBODY, self.owner) and not self._believed(record.renews):
            return False
        self.owner = offset
        self.passed_over = ()
        self.session = record.session
        self.who = record.who
        # R15: numbers that were given out and never written are not given out again.
        self.running_count = max(self.running_count, record.running_count)
        return True

    def take_write(self, owner: int, running_count: int, count: int) -> bool:
        """Take a write with these numbers, and return whether it counts."""
        if owner != self.owner:
            if not self._believed(owner):
                return False  # R10: of an owner that was fenced, though it may not have known
            self.owner = owner
            self.session = 0
            self.running_count = max(self.running_count, running_count)
        if running_count != self.running_count:
            if not self.passed_over or running_count < self.running_count:
                return False  # R11: it comes twice, or something before it is missing, and will be written again
            self.running_count = running_count  # R45: the numbers between were in records that cannot be decoded
        self.passed_over = ()
        self.running_count += count
        return True

    def take_writes(self, owners: Sequence[int], running_count: Sequence[int], counts: Sequence[int]) -> bool:
        """Take them if all are writes of the last owner that count; if not, take none: the caller asks one by one."""
        *before, after = accumulate(counts, initial=self.running_count)
        if self.passed_over or set(owners) != {self.owner} or before != [*running_count]:
            return False
        self.running_count = after
        return True

    def pass_over(self, offset: int) -> None:
        """Take in that the record there cannot be decoded: its owner's next write counts as it comes (R45)."""
        self.passed_over = (*self.passed_over, offset)

    def at(self, offset: int) -> Fence:
        """One for reading from there on, where a write is that counts: its owner is the owner there."""
        return Fence(start=offset)

    def _believed(self, owner: int) -> bool:
        # An id is the offset of an owner record: a write with the id of such a record shows that it was one.
        return self.owner < owner and (owner < self.start or owner in self.passed_over)


class Unfenced(Fence):
    """The fence of a log without owner records: every record counts."""

    ordered = False

    def take_write(self, owner: int, running_count: int, count: int) -> bool:
        return True

    def pass_over(self, offset: int) -> None:
        """Nothing depends on it."""

    def at(self, offset: int) -> Fence:
        return Unfenced(start=offset)

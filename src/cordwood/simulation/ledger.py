"""The calls on a log and its answers: the truth that later contents of the log are compared with.

Every value is appended once, so a value found in a log names the append that it came from.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    UNDECIDED = "undecided"
    ACKED = "acked"
    # The log reported that it was not written, or a reopened log did not have it: it must never be seen.
    GONE = "gone"


@dataclass(eq=False, slots=True)
class Write:
    """One append of some values."""

    number: int
    values: tuple[bytes, ...]
    fate: Fate = Fate.UNDECIDED
    first_offset: int = -1

    @property
    def stop(self) -> int:
        return self.first_offset + len(self.values)


class Broken(AssertionError):
    """The log broke a promise."""


@dataclass(slots=True)
class Contents:
    """The visible contents of a log: its bounds, and its records from the first to the last."""

    start: int
    end: int
    values: list[bytes]

    def found(self) -> Iterable[tuple[int, bytes]]:
        return enumerate(self.values, self.start)


@dataclass(slots=True)
class LogLedger:
    name: str
    writes: list[Write] = field(default_factory=list)
    start_min: int = 0
    """The highest trim that was confirmed."""
    start_max: int = 0
    """The highest trim that was requested."""
    end_min: int = 0
    """The highest end that the log has shown or acked."""
    _by_value: dict[bytes, tuple[Write, int]] = field(default_factory=dict)

    def write(self, values: Iterable[bytes]) -> Write:
        write = Write(len(self.writes), tuple(values))
        self.writes.append(write)
        for place, value in enumerate(write.values):
            if value in self._by_value:
                raise ValueError(f"{self.name}: {value[:40]!r} was appended already")
            self._by_value[value] = (write, place)
        return write

    def ack(self, write: Write, offsets: range) -> None:
        """Acks come in offset order, and assign each offset once (R8)."""
        if write.fate is not Fate.UNDECIDED:
            raise Broken(f"{self.name}: append {write.number} is acked, but was {write.fate.value}")
        if offsets.start < self.end_min or len(offsets) != len(write.values):
            raise Broken(f"{self.name}: append {write.number} is acked at {offsets}, after an end of {self.end_min}")
        write.fate, write.first_offset = Fate.ACKED, offsets.start
        self.end_min = offsets.stop

    def refuse(self, write: Write) -> None:
        if write.fate is Fate.UNDECIDED:
            write.fate = Fate.GONE

    def ask_trim(self, before: int) -> None:
        self.start_max = max(self.start_max, before)

    def trim(self, before: int) -> None:
        self.start_min = max(self.start_min, before)

    def check(self, contents: Contents, *, to_the_end: bool = True) -> None:
        """Compare the contents of the log with its promises; `to_the_end` is False if it may show only a prefix."""
        start, end = contents.start, contents.end
        if not self.start_min <= start <= self.start_max:
            raise Broken(f"{self.name}: starts at {start}, but was trimmed to {self.start_min}…{self.start_max}")
        if len(contents.values) != end - start:
            raise Broken(f"{self.name}: {len(contents.values)} records between {start} and {end}")
        places = self._places(contents)
        for write, place in places.items():
            last = min(place + len(write.values), end)
            if last != place + len(write.values):
                raise Broken(f"{self.name}: append {write.number} is cut at {end}: all of an append, or nothing")
        numbers = [write.number for write, _ in sorted(places.items(), key=lambda item: item[1])]
        if numbers != sorted(numbers):
            raise Broken(f"{self.name}: the appends are not in the order they were made in: {numbers}")
        if to_the_end:
            self._check_all_there(contents, places)

    def _places(self, contents: Contents) -> dict[Write, int]:
        """Where each append that is found begins."""
        places: dict[Write, int] = {}
        seen: set[bytes] = set()
        for offset, value in contents.found():
            write, index = self._by_value.get(value, (None, 0))
            if write is None:
                raise Broken(f"{self.name}: offset {offset} has {value[:40]!r}, which was never appended")
            if value in seen:
                raise Broken(f"{self.name}: {value[:40]!r} is there twice, also at {offset}")
            seen.add(value)
            if write.fate is Fate.GONE:
                raise Broken(f"{self.name}: append {write.number}, which was not written, is at {offset}")
            place = places.setdefault(write, offset - index)
            if place != offset - index or (write.fate is Fate.ACKED and place != write.first_offset):
                raise Broken(
                    f"{self.name}: record {index} of append {write.number} is at {offset}; acked at"
                    f" {write.first_offset}, begins at {place}"
                )
        return places

    def _check_all_there(self, contents: Contents, places: dict[Write, int]) -> None:
        if contents.end < self.end_min:
            raise Broken(f"{self.name}: ends at {contents.end}, but {self.end_min} was reached (R7)")
        for write in self.writes:
            if write.fate is Fate.ACKED and write.stop > contents.start and write not in places:
                raise Broken(f"{self.name}: append {write.number}, acked at {write.first_offset}, is lost")

    def settle(self, contents: Contents) -> None:
        """The contents of a reopened log are final: they stay, and records that are missing never come back."""
        places = self._places(contents)
        for write in self.writes:
            if write.fate is not Fate.UNDECIDED:
                continue
            write.fate = Fate.ACKED if write in places else Fate.GONE
            write.first_offset = places.get(write, -1)
        self.end_min = max(self.end_min, contents.end)
        self.start_min = self.start_max = contents.start

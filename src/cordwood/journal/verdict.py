"""The appends of one key that are under way, and their verdicts: a pure state machine (R20, R21).

The log's order is the referee. The writer numbers an append after the state that it knows, sends it, and applies every
record of the key in log order, its own and those of others. A record of an append under way decides it: it has won if
it counted. An append whose outcome is unknown is sent again, unchanged: whichever copy comes first decides, and no
later copy can count.

Of several appends of this process with one `expected`, only the first is sent. The others are its rivals: its verdict
decides them too, and a record that cannot count is never written.
"""

from collections import deque
from typing import NamedTuple, TypeAlias

from cordwood.store import HeadRow

from .action import Append
from .fold import Told, Topic, seq_nr_of, step

_RECENT = 64
"""The last appends of a key that are remembered: a conditional append that lost asks who took its number."""


class AppendUnderWay:
    """An append that is not decided. Its subclass knows the caller."""

    __slots__ = ("after", "conditional", "count", "expected", "first", "id", "life", "offset")

    def __init__(self, id: str, count: int, expected: int | None, life: str | None) -> None:
        self.id = id
        self.count = count
        self.conditional = expected is not None
        """Whether its caller gave `expected`: then it is never renumbered."""
        self.expected = expected
        self.life = life
        self.after: str | None = None
        self.first = 0
        """The number of its first event; 0 while it has none."""
        self.offset: int | None = None
        """Where a copy of it was acked; None if no ack came yet."""


_Condition: TypeAlias = tuple[int | None, str | None]


def _condition(append: AppendUnderWay) -> _Condition:
    """The state that a conditional append asks for: a number and, of a `Position`, a life."""
    return append.expected, append.life


class Counted(NamedTuple):
    """An Append that counted: the id of the append that took these numbers."""

    first: int
    last: int
    id: str | None
    expected: int | None
    offset: int
    life: str | None


class Won(NamedTuple):
    append: AppendUnderWay
    offset: int
    last: int
    """The number of its last event: an append of another process with the same id may have had more or fewer."""


class Lost(NamedTuple):
    """A conditional append lost: its caller raises `Conflict`, unless an earlier append of its own had won."""

    append: AppendUnderWay


class KeyAppends:
    """The appends of one key: `waiting` have no number yet, `sent` have one and wait for their verdict, in order.

    `rivals` are conditional appends that wait for the verdict of a sent one with the same `expected` and life.

    `state` is the key's state as of `through`: all records of the key below that offset are applied.
    """

    def __init__(self) -> None:
        self.state: HeadRow | None = None
        self.through: int | None = None
        """None while the state is not known."""
        self.waiting: deque[AppendUnderWay] = deque()
        self.sent: dict[str, AppendUnderWay] = {}
        self.rivals: dict[_Condition, dict[str, AppendUnderWay]] = {}
        self._recent: deque[Counted] = deque(maxlen=_RECENT)

    @property
    def busy(self) -> bool:
        return bool(self.sent or self.waiting or self.rivals)

    def add(self, append: AppendUnderWay) -> bool:
        """Take an append of a caller; True if it is to be sent now: a conditional one without a rival before it."""
        if append.expected is None:
            self.waiting.append(append)
            return False
        rivals = self.rivals.get(_condition(append))
        if rivals is not None:
            rivals[append.id] = append
            return False
        self._lead(append)
        return True

    def _lead(self, append: AppendUnderWay) -> None:
        """Its verdict decides all later appends with its condition."""
        assert append.expected is not None
        append.first = append.expected + 1
        self.sent[append.id] = append
        self.rivals.setdefault(_condition(append), {})

    def take_rivals(self, decided: AppendUnderWay) -> list[AppendUnderWay]:
        """The rivals of a conditional append that has won or lost: its number is theirs, and they lose at its place."""
        rivals = self.rivals.pop(_condition(decided), {})
        for rival in rivals.values():
            rival.first = decided.first
        return list(rivals.values())

    def next_rival(self, ended: AppendUnderWay) -> AppendUnderWay | None:
        """The rival to send, after a conditional append ended without a verdict; None if another one is under way."""
        condition = _condition(ended)
        rivals = self.rivals.get(condition)
        if rivals is None:
            return None
        if any(append.conditional and _condition(append) == condition for append in self.sent.values()):
            return None
        if not rivals:
            del self.rivals[condition]
            return None
        rival = rivals.pop(next(iter(rivals)))
        self._lead(rival)
        return rival

    def number_next(self) -> AppendUnderWay:
        """Give the first waiting append its number, after the last one that was sent."""
        append = self.waiting.popleft()
        last = next(reversed(self.sent.values())) if self.sent else None
        if last is None:
            append.first = seq_nr_of(self.state) + 1
            append.after = None
            append.life = None if self.state is None else self.state.life
        else:
            append.first = last.first + last.count
            append.after = last.id
            append.life = last.life
        append.expected = append.first - 1
        self.sent[append.id] = append
        return append

    def winner_of(self, number: int) -> Counted | None:
        """The append that took a number, if it is one of the last."""
        return next((counted for counted in reversed(self._recent) if counted.first <= number <= counted.last), None)

    def under_way(self, id: str) -> AppendUnderWay | None:
        """The append with this id, if it is not decided yet."""
        if id in self.sent:
            return self.sent[id]
        rival = next((rivals[id] for rivals in self.rivals.values() if id in rivals), None)
        return rival or next((append for append in self.waiting if append.id == id), None)

    def forget(self, append: AppendUnderWay) -> None:
        """The caller has given up, or the append was not written: later ones are numbered without it."""
        if self.sent.get(append.id) is append:
            del self.sent[append.id]
        elif append.conditional:
            rivals = self.rivals.get(_condition(append), {})
            if rivals.get(append.id) is append:
                del rivals[append.id]
        elif append in self.waiting:
            self.waiting.remove(append)

    def apply(self, offset: int, timestamp: int, told: Told, topic: Topic) -> Won | Lost | None:
        """Apply the next record of the key. An append that lost, and has to be renumbered, is in `waiting` again."""
        verdict = step(self.state, told, offset, timestamp, topic)
        self.state = verdict.state
        if verdict.state is None:
            self._recent.clear()
        if type(told) is not Append:
            return None
        if verdict.counted and verdict.state is not None:
            self._recent.append(Counted(verdict.first, told.last, told.id, told.expected, offset, verdict.state.life))
        if told.id is None:
            return None
        append = self.sent.get(told.id)
        if verdict.counted:
            # Whichever copy of it: the others name a number that is taken now.
            won = append or self.under_way(told.id)
            if won is None or (won.conditional and won.expected != told.expected):
                return None  # of another writer, or of another call that has the same id and another condition
            self.forget(won)
            won.first = told.first
            return Won(won, offset, told.last)
        if append is None or append.first != told.first:
            # Of another writer, or a late copy of an append that has another number by now.
            return None
        return self._lose(append)

    def _lose(self, lost: AppendUnderWay) -> Lost | None:
        """All appends that were numbered after a lost one lose, too: their `after` never becomes the last append."""
        later = list(self.sent.values())
        later = later[later.index(lost) :]
        again = [append for append in later if not append.conditional]
        for append in again:
            del self.sent[append.id]
            append.expected = None
            append.first = 0
        self.waiting.extendleft(reversed(again))
        if lost.conditional:
            del self.sent[lost.id]
            return Lost(lost)
        return None

"""Where an append is, and where a journal is: what a caller gets, and may pass back."""

import msgspec


class Position(msgspec.Struct, frozen=True):
    """A place in a journal: its life and the number of its last event (R40).

    As `expected` it holds only in that life: a journal that was purged and begun again is another one.

    >>> Position("5a74ac36-ef35-5c9c-8fa0-72bc20c3567e", 4).seq_nr
    4
    """

    life: str | None
    seq_nr: int


class Appended(msgspec.Struct, frozen=True):
    """An append that is durable and counts.

    >>> done = Appended(range(1, 5), 0, 17, Position("5a74ac36-ef35-5c9c-8fa0-72bc20c3567e", 4), "command-42")
    >>> done.seq_nrs[-1], done.position.seq_nr
    (4, 4)
    """

    seq_nrs: range
    partition: int
    offset: int
    position: Position
    id: str

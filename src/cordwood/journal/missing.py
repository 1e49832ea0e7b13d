"""Which missing numbers of a journal are damage of the store: a gap that R25's second look has confirmed.

Appends of Scala programs, and those of topics with `single_writer=True`, may leave gaps. Every other append carries an
id and follows the number before it. So its number before is there, or deleted, or it was that of a poison record that
an operator has skipped.
"""

from collections.abc import Sequence

from cordwood.store import DeadLetter, EventRow, HeadRow

from .action import Append
from .bad_record import BadRecord
from .header import decode_header
from .record_rows import append_id_of


def lost_between(rows: Sequence[EventRow], start: int, letters: Sequence[DeadLetter]) -> range:
    """The numbers of the first gap from `start` on that is damage; empty if none is.

    >>> rows = [EventRow(number, 0, 0, 9, None, None, None, '{"id":"a"}', None) for number in (3, 6)]
    >>> lost_between(rows, 3, []), lost_between(rows[1:], 6, [])
    (range(4, 6), range(0, 0))
    """
    before: EventRow | None = None
    for row in rows:
        if row.seq_nr > start:
            of_one_record = before is not None and (before.partition, before.offset) == (row.partition, row.offset)
            follows = of_one_record or append_id_of(row.metadata) is not None
            if lost := _lost(start, row.seq_nr, follows, letters):
                return lost
        before, start = row, row.seq_nr + 1
    return range(0)


def lost_at_end(head: HeadRow, start: int, letters: Sequence[DeadLetter]) -> range:
    """The last numbers of a journal from `start` on that must have been there; empty if there are none.

    >>> lost_at_end(HeadRow(0, 9, 10_000, 5, 0, 0, append_id="a"), 5, [])
    range(5, 6)
    """
    return _lost(start, head.seq_nr + 1, head.append_id is not None, letters)


def _lost(start: int, stop: int, follows: bool, letters: Sequence[DeadLetter]) -> range:
    """`follows`: what begins at `stop` must have a number before it."""
    skipped = sorted((append for letter in letters if (append := _append_of(letter)) is not None), key=_last)
    while skipped and stop > start:
        append = skipped.pop()
        if append.first >= stop:
            continue
        if append.last + 1 < stop:  # this is not what explains the last missing number
            break
        stop, follows = append.first, append.id is not None
    return range(start, stop) if follows and stop > start else range(0)


def _last(append: Append) -> int:
    return append.last


def _append_of(letter: DeadLetter) -> Append | None:
    try:
        action = decode_header(letter.header or b"")
    except BadRecord:
        return None
    return action if isinstance(action, Append) else None

"""Which gaps are damage: the numbers before an append of ours, as far as no poison record took them."""

import pytest

from cordwood.journal.action import Append, Mark
from cordwood.journal.header import encode_header
from cordwood.journal.missing import lost_at_end, lost_between
from cordwood.store import DeadLetter, EventRow, HeadRow


def row(number: int, offset: int, id: str | None = "a") -> EventRow:
    metadata = '{"header":{},"payload":{}' + ("}" if id is None else f',"id":"{id}"}}')
    return EventRow(number, 0, 0, offset, None, None, None, metadata, None)


def letter(first: int, last: int, id: str | None = "a") -> DeadLetter:
    return DeadLetter("orders", 0, first, header=encode_header(Append(first, last, id=id)))


@pytest.mark.parametrize(
    ("rows", "letters", "lost"),
    [
        ([], [], ()),
        ([row(1, 1), row(2, 2)], [], ()),
        ([row(3, 3)], [], (1, 2)),
        ([row(1, 1), row(4, 4)], [], (2, 3)),
        ([row(1, 1), row(4, 4, None)], [], ()),
        ([row(1, 1, None), row(4, 1, None)], [], (2, 3)),
        ([row(1, 1), row(4, 4, None), row(9, 9)], [], (5, 6, 7, 8)),
        ([row(1, 1), row(4, 4)], [letter(2, 3)], ()),
        ([row(1, 1), row(4, 4)], [letter(3, 3), letter(2, 2)], ()),
        ([row(1, 1), row(5, 5)], [letter(3, 4)], (2,)),
        ([row(1, 1), row(5, 5)], [letter(3, 4, None)], ()),
        ([row(1, 1), row(5, 5)], [letter(2, 3)], (2, 3, 4)),
        ([row(1, 1), row(5, 5)], [letter(8, 9), letter(2, 4)], ()),
        ([row(3, 3)], [DeadLetter("orders", 0, 1, header=b"no JSON"), DeadLetter("orders", 0, 2)], (1, 2)),
        ([row(3, 3)], [DeadLetter("orders", 0, 1, header=encode_header(Mark("m")))], (1, 2)),
    ],
)
def test_a_gap_before_an_append_of_ours_is_lost(
    rows: list[EventRow], letters: list[DeadLetter], lost: tuple[int, ...]
) -> None:
    assert tuple(lost_between(rows, 1, letters)) == lost


@pytest.mark.parametrize(
    ("append_id", "letters", "lost"),
    [("a", [], (4, 5)), (None, [], ()), ("a", [letter(4, 5)], ()), ("a", [letter(5, 5)], (4,))],
)
def test_numbers_below_the_head_row_are_lost_if_the_last_append_is_ours(
    append_id: str | None, letters: list[DeadLetter], lost: tuple[int, ...]
) -> None:
    assert tuple(lost_at_end(HeadRow(0, 9, 10_000, 5, 0, 0, append_id=append_id), 4, letters)) == lost

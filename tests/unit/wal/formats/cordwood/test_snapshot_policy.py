"""R14: when a snapshot is due, case by case."""

import pytest

from cordwood.wal.formats.cordwood.snapshot_policy import (
    SNAPSHOT_BYTES,
    SNAPSHOT_MARKS,
    SNAPSHOT_WRITES,
    TABLES_PER_DROP,
    Growth,
    is_due,
    is_due_after_drop,
    is_due_on_close,
)

NOTHING = Growth(writes=0, bytes=0, marks=0, tables=0)
MANY = 3 * max(SNAPSHOT_WRITES, SNAPSHOT_MARKS)


@pytest.mark.parametrize(
    ("since", "due"),
    [
        (NOTHING, False),
        (NOTHING._replace(writes=SNAPSHOT_WRITES - 1, bytes=SNAPSHOT_BYTES - 1, marks=SNAPSHOT_MARKS - 1), False),
        (NOTHING._replace(writes=SNAPSHOT_WRITES), True),
        (NOTHING._replace(bytes=SNAPSHOT_BYTES), True),
        (NOTHING._replace(marks=SNAPSHOT_MARKS), True),
        (Growth(writes=MANY - 1, bytes=0, marks=MANY - 1, tables=MANY), False),
        (Growth(writes=MANY, bytes=0, marks=0, tables=MANY), True),
        (Growth(writes=0, bytes=0, marks=MANY, tables=MANY), True),
        (Growth(writes=0, bytes=SNAPSHOT_BYTES, marks=0, tables=MANY), True),
    ],
)
def test_r14_a_snapshot_is_due_after_so_many_bytes_writes_or_marks(since: Growth, due: bool) -> None:
    assert is_due(since) is due


@pytest.mark.parametrize(
    ("marks", "tables", "due"),
    [
        (1, 1, True),
        (1, TABLES_PER_DROP, True),
        (1, TABLES_PER_DROP + 1, False),
        (2, TABLES_PER_DROP + 1, True),
        (10, 10 * TABLES_PER_DROP, True),
        (10, 10 * TABLES_PER_DROP + 1, False),
    ],
)
def test_a_drop_makes_one_due_that_the_marks_pay_for(marks: int, tables: int, due: bool) -> None:
    assert is_due_after_drop(NOTHING._replace(marks=marks, tables=tables)) is due


@pytest.mark.parametrize(
    ("next_offset", "snapshot_offset", "marks", "due"),
    [(7, 7, 0, False), (7, 7, 1, True), (8, 7, 0, True), (1, 0, 0, True)],
)
def test_a_close_leaves_one_if_the_next_open_had_to_read(
    next_offset: int, snapshot_offset: int, marks: int, due: bool
) -> None:
    assert is_due_on_close(next_offset=next_offset, snapshot_offset=snapshot_offset, marks=marks) is due

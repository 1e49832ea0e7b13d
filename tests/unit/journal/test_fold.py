"""R20, R27, R40, R43: which actions count, and that the store is a function of the log."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.journal.action import Append, Delete, Mark, Purge
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.fold import KeyFold, KeyRecord, Poison, Told, Topic, exists, life_of, seq_nr_of, step
from cordwood.store import EventRow, HeadRow, KeyChanges

TOPIC = Topic("17", 0, 10_000)
DAY_NS = 86_400 * 10**9


def rows_of(record: KeyRecord, append: Append, life: str | None, first: int) -> tuple[list[EventRow], int | None]:
    """Values here: b"bad", or the expiry in days."""
    if record.value == b"bad":
        raise BadRecord("a bad value")
    rows = [
        EventRow(number, record.timestamp, 0, record.offset, None, None, life, None, None)
        for number in range(first, append.last + 1)
    ]
    return rows, int(record.value) * DAY_NS if record.value else None


@dataclass
class MemoryTables:
    """The tables of a store, for one key."""

    head: HeadRow | None = None
    rows: dict[int, EventRow] = field(default_factory=dict)

    def write(self, changes: KeyChanges) -> None:
        if changes.purge is not None:
            self.rows = {}
        if changes.deletion is not None:
            through = changes.deletion.through
            self.rows = {number: row for number, row in self.rows.items() if number > through}
        for row in changes.rows:
            self.rows[row.seq_nr] = row
        self.head = changes.head


def fold(records: Sequence[KeyRecord], ends: Sequence[int]) -> MemoryTables:
    """Fold the records in batches that end at these places."""
    tables = MemoryTables()
    start = 0
    for end in [*sorted(ends), len(records)]:
        batch = KeyFold("id", tables.head, TOPIC, rows_of)
        for record in records[start:end]:
            batch.add(record)
        changes = batch.changes()
        if changes is not None:
            tables.write(changes)
        start = end
    return tables


LIVES = [None, *(life_of("17", 0, offset) for offset in range(6)), "another"]
numbers = st.integers(1, 6)
appends = st.builds(
    lambda first, count, ours, life, after, id, keep: Append(
        first,
        first + count,
        id=id if ours else None,
        expected=first - 1 if ours else None,
        life=life if ours else None,
        after=after if ours else None,
        keep_expiry=keep,
    ),
    numbers,
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(LIVES),
    st.sampled_from([None, None, "a", "b"]),
    st.sampled_from(["a", "b"]),
    st.booleans(),
)
deletes = st.builds(Delete, numbers, life=st.sampled_from(LIVES))
purges = st.builds(Purge, life=st.sampled_from(LIVES), seq_nr=st.sampled_from([None, 1, 2, 3]))
actions: st.SearchStrategy[Told] = st.one_of(
    appends, appends, appends, deletes, purges, st.just(Mark("m")), st.just(Poison("a bad header"))
)
values = st.sampled_from([b"", b"", b"1", b"40", b"bad"])


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[KeyRecord], list[int]]:
    told = draw(st.lists(st.tuples(actions, values), max_size=12))
    records = [
        KeyRecord(offset, 1_700_000_000_000 + offset, action, value, None)
        for offset, (action, value) in enumerate(told)
    ]
    return records, draw(st.lists(st.integers(0, len(records)), max_size=5))


@settings(max_examples=400)
@given(histories())
def test_every_way_to_split_a_history_gives_the_same_rows(history: tuple[list[KeyRecord], list[int]]) -> None:
    records, ends = history
    one_at_a_time = fold(records, range(len(records)))
    assert fold(records, ends) == one_at_a_time
    assert fold(records, []) == one_at_a_time


@settings(max_examples=400)
@given(histories())
def test_a_batch_that_is_applied_again_changes_nothing(history: tuple[list[KeyRecord], list[int]]) -> None:
    records, _ = history
    tables = fold(records, [])
    if tables.head is None:
        return  # without a head row nothing says that the batch was applied: the pointer does
    again = KeyFold("id", tables.head, TOPIC, rows_of)
    for record in records:
        if record.offset <= tables.head.offset:
            again.add(record)
    changes = again.changes()
    head, rows = tables.head, dict(tables.rows)
    if changes is not None:
        tables.write(changes)
    assert (tables.head, tables.rows) == (head, rows)


@settings(max_examples=400)
@given(histories())
def test_who_folds_headers_alone_reaches_the_same_numbers(history: tuple[list[KeyRecord], list[int]]) -> None:
    records, _ = history
    state: HeadRow | None = None
    for record in records:
        state = step(state, record.told, record.offset, record.timestamp, TOPIC).state
    folded = fold(records, []).head
    assert (seq_nr_of(state), exists(state)) == (seq_nr_of(folded), exists(folded))
    assert state is None or folded is None or (state.life, state.delete_to) == (folded.life, folded.delete_to)


def fold_told(*told: Told, values: Sequence[bytes] = ()) -> MemoryTables:
    padded = [*values, *[b""] * (len(told) - len(values))]
    return fold([KeyRecord(at, at, action, padded[at], None) for at, action in enumerate(told)], [])


def ours(first: int, last: int, id: str = "x", **more: object) -> Append:
    return Append(first, last, id=id, expected=first - 1, **more)  # type: ignore[arg-type]


def test_an_append_counts_only_after_the_number_that_it_names() -> None:
    assert sorted(fold_told(ours(1, 2), ours(4, 5), ours(3, 3)).rows) == [1, 2, 3]


def test_a_repeated_append_counts_once() -> None:
    tables = fold_told(ours(1, 2), ours(1, 2))
    assert [row.offset for row in tables.rows.values()] == [0, 0]


def test_a_pipelined_append_never_counts_after_a_rival() -> None:
    # A (6) is lost, a rival takes 6, and B follows A: by number alone B would count.
    tables = fold_told(Append(1, 5), ours(6, 6, "rival"), ours(7, 7, "b", after="a"), ours(7, 7, "a"))
    assert tables.rows[7].offset == 3


def test_a_foreign_append_counts_with_its_events_above_the_last() -> None:
    tables = fold_told(Append(1, 3), Append(2, 5), Append(9, 9))
    assert {number: row.offset for number, row in tables.rows.items()} == {1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 9: 2}


def test_an_append_above_one_on_nothing_has_the_numbers_before_deleted() -> None:
    head = fold_told(Append(4, 5)).head
    assert head is not None
    assert (head.seq_nr, head.delete_to) == (5, 3)


def test_a_delete_beyond_the_end_hides_no_later_event() -> None:
    tables = fold_told(Append(1, 3), Delete(9), Append(4, 4))
    assert tables.head is not None
    assert (tables.head.seq_nr, tables.head.delete_to, sorted(tables.rows)) == (4, 3, [4])


def test_a_foreign_delete_on_nothing_makes_a_journal_without_life() -> None:
    head = fold_told(Delete(7)).head
    assert head is not None
    assert (head.seq_nr, head.delete_to, head.life) == (7, 7, None)
    head = fold_told(Delete(7), Append(8, 8)).head
    assert head is not None
    assert head.life == life_of("17", 0, 1)


def test_deletes_and_purges_of_another_life_change_nothing() -> None:
    first = life_of("17", 0, 0)
    tables = fold_told(ours(1, 3), Purge(life=first), ours(1, 2, "y"), Delete(2, life=first), Purge(life=first))
    assert tables.head is not None
    assert (tables.head.life, tables.head.delete_to, sorted(tables.rows)) == (life_of("17", 0, 2), None, [1, 2])


def test_a_purge_of_an_expired_journal_counts_only_at_the_number_it_saw() -> None:
    life = life_of("17", 0, 0)
    assert fold_told(ours(1, 2), Purge(life=life, seq_nr=1)).head is not None
    assert fold_told(ours(1, 2), Purge(life=life, seq_nr=2)).head is None


def test_expiry_follows_the_timestamps_and_the_order_of_the_log() -> None:
    def expire_on(*told: Told, values: Sequence[bytes]) -> date | None:
        head = fold_told(*told, values=values).head
        assert head is not None
        return head.expire_on

    assert expire_on(ours(1, 1), values=[b"1"]) == date(1970, 1, 2)
    assert expire_on(ours(1, 1), ours(2, 2), values=[b"1", b""]) is None
    assert expire_on(ours(1, 1), ours(2, 2, keep_expiry=True), values=[b"1", b""]) == date(1970, 1, 2)
    assert expire_on(ours(1, 1), ours(2, 2), values=[b"1", b"40"]) == date(1970, 2, 10)


@pytest.mark.parametrize("value", [b"", b"bad"])
def test_a_bad_value_takes_its_numbers_and_closes_the_key(value: bytes) -> None:
    head = fold_told(ours(1, 2), ours(3, 3, "y"), values=[value, b""]).head
    assert head is not None
    assert head.seq_nr == 3
    assert (head.closed is not None) == (value == b"bad")


def test_a_bad_value_of_an_append_that_lost_closes_nothing() -> None:
    head = fold_told(ours(1, 2), ours(1, 1, "y"), values=[b"", b"bad"]).head
    assert head is not None
    assert head.closed is None


def test_a_purge_opens_a_closed_key() -> None:
    assert fold_told(Poison("bad"), Purge()).head is None
    head = fold_told(Poison("bad"), ours(1, 1)).head
    assert head is not None
    assert head.closed == (0, 0)

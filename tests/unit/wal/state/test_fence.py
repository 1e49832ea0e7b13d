"""Which records count: the histories of R10, R11 and R15, without a log."""

from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.wal.record import NOBODY, OwnerRecord
from cordwood.wal.state.fence import Fence


def owner(renews: int = NOBODY, running_count: int = 0) -> OwnerRecord:
    return OwnerRecord(renews, running_count, 1, "somebody")


def test_r10_a_write_counts_only_behind_the_owner_record_that_it_names() -> None:
    fence = Fence()
    assert not fence.take_write(0, 0, 2), "nobody owns the region"
    assert fence.take_owner(1, owner())
    assert fence.take_write(1, 0, 2)
    assert fence.take_owner(3, owner(running_count=2))
    assert not fence.take_write(1, 2, 2), "its owner was fenced"
    assert fence.take_write(3, 2, 1)


def test_r11_a_write_counts_once_though_it_comes_twice() -> None:
    fence = Fence()
    fence.take_owner(0, owner())
    assert fence.take_write(0, 0, 5)
    assert not fence.take_write(0, 0, 5)
    assert fence.take_write(0, 5, 5)


def test_r11_a_write_behind_a_lost_one_does_not_count() -> None:
    fence = Fence()
    fence.take_owner(0, owner())
    assert not fence.take_write(0, 5, 5), "the one before it is missing, and will be written again"
    assert fence.take_write(0, 0, 5)


def test_r11_after_a_renewal_only_the_new_id_counts() -> None:
    fence = Fence()
    fence.take_owner(0, owner())
    assert fence.take_write(0, 0, 5)
    assert fence.take_owner(2, owner(renews=0, running_count=10))
    assert not fence.take_write(0, 5, 5), "it lands late, and was written again or given up"
    assert fence.take_write(2, 10, 5)


def test_r11_a_renewal_of_a_fenced_owner_is_void() -> None:
    fence = Fence()
    fence.take_owner(0, owner())
    fence.take_owner(1, owner())
    assert not fence.take_owner(2, owner(renews=0, running_count=99))
    assert (fence.owner, fence.running_count) == (1, 0)
    assert fence.take_write(1, 0, 1)


def test_r15_the_count_never_goes_back() -> None:
    fence = Fence()
    fence.take_owner(0, owner())
    fence.take_write(0, 0, 7)
    fence.take_owner(2, owner(running_count=3))
    assert fence.running_count == 7
    fence.take_owner(3, owner(renews=2, running_count=20))
    assert fence.running_count == 20


def test_of_a_log_that_was_cut_the_highest_owner_below_the_cut_is_believed() -> None:
    fence = Fence(start=100)
    assert fence.take_write(57, 1000, 3)
    assert not fence.take_write(40, 1003, 3), "an earlier owner"
    assert fence.take_owner(102, owner(running_count=1003))
    assert not fence.take_write(57, 1003, 3)
    assert fence.take_write(102, 1003, 3)


def test_of_a_log_that_was_cut_a_renewal_of_an_owner_below_the_cut_counts() -> None:
    fence = Fence(start=100)
    assert fence.take_owner(100, owner(renews=57, running_count=1000))
    assert fence.take_write(100, 1000, 1)


writes = st.tuples(st.sampled_from([5, 6, 40]), st.integers(0, 12), st.integers(1, 3))


@given(known=st.integers(NOBODY, 6), running_count=st.integers(0, 6), given=st.lists(writes, min_size=1, max_size=5))
@example(known=5, running_count=3, given=[(5, 3, 2), (5, 5, 1), (5, 6, 1)])
def test_writes_that_are_taken_together_would_have_been_taken_one_by_one(
    known: int, running_count: int, given: list[tuple[int, int, int]]
) -> None:
    together, one_by_one = (Fence(start=10, owner=known, running_count=running_count) for _ in range(2))
    taken = together.take_writes(*zip(*given, strict=True))
    expected = [one_by_one.take_write(*write) for write in given]
    if taken:
        assert all(expected)
        assert together == one_by_one
    else:
        assert together == Fence(start=10, owner=known, running_count=running_count)
        assert not all(expected) or {owner for owner, _, _ in given} != {known}


def test_r45_after_a_bad_record_the_count_continues_as_it_comes() -> None:
    fence = Fence()
    assert fence.take_owner(0, OwnerRecord(NOBODY, 0, 1, "here"))
    assert fence.take_write(0, 0, 1)
    assert not fence.take_write(0, 3, 1)
    fence.pass_over(3)
    assert not fence.take_writes([0], [1], [1]), "one by one, until a write counts"
    assert not fence.take_write(0, 0, 1), "what comes twice still does not count"
    assert fence.take_write(0, 3, 1)
    assert not fence.take_write(0, 5, 1), "only once"
    fence.pass_over(6)
    assert fence.take_write(6, 4, 1), "the record was an owner's"
    assert not fence.take_write(0, 5, 1)

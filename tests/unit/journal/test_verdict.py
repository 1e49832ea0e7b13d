"""The appends of one key that are under way: of several with one condition, only the first is sent (R20)."""

from cordwood.journal.action import Append
from cordwood.journal.fold import Topic
from cordwood.journal.verdict import AppendUnderWay, KeyAppends, Lost, Won

TOPIC = Topic("topic-id", 0, 10_000)


def told(append: AppendUnderWay) -> Append:
    first = append.first
    return Append(first, first + append.count - 1, "json", "host", "0.1.0", None, append.id, first - 1, append.life)


def known() -> KeyAppends:
    appends = KeyAppends()
    appends.through = 0
    return appends


def test_rivals_of_a_sent_append_are_decided_by_its_verdict() -> None:
    appends = known()
    first, second, third = (AppendUnderWay(id, 1, 0, None) for id in "abc")
    assert [appends.add(append) for append in (first, second, third)] == [True, False, False]
    decision = appends.apply(0, 1, told(first), TOPIC)
    assert isinstance(decision, Won)
    assert decision.append is first
    assert appends.take_rivals(first) == [second, third]
    assert (second.first, third.first) == (1, 1)
    winner = appends.winner_of(1)
    assert winner is not None
    assert winner.id == "a"
    assert not appends.busy


def test_rivals_lose_with_a_sent_append_that_loses_to_another_writer() -> None:
    appends = known()
    foreign = AppendUnderWay("foreign", 1, 0, None)
    foreign.first = 1
    ours, rival = AppendUnderWay("a", 1, 0, None), AppendUnderWay("b", 1, 0, None)
    appends.add(ours)
    appends.add(rival)
    assert appends.apply(0, 1, told(foreign), TOPIC) is None
    decision = appends.apply(1, 1, told(ours), TOPIC)
    assert isinstance(decision, Lost)
    assert decision.append is ours
    assert appends.take_rivals(ours) == [rival]


def test_another_condition_is_no_rival() -> None:
    appends = known()
    number, position, next_number = (
        AppendUnderWay("a", 1, 3, None),
        AppendUnderWay("b", 1, 3, "a life"),
        AppendUnderWay("c", 1, 4, None),
    )
    assert all(appends.add(append) for append in (number, position, next_number))
    assert appends.take_rivals(number) == []


def test_the_next_rival_is_sent_after_an_append_that_was_not_decided() -> None:
    appends = known()
    first, second, third = (AppendUnderWay(id, 1, 0, None) for id in "abc")
    for append in (first, second, third):
        appends.add(append)
    assert appends.next_rival(first) is None  # still under way
    appends.forget(first)
    assert appends.next_rival(first) is second
    assert (second.first, third.first) == (1, 0)
    appends.forget(third)
    appends.forget(second)
    assert appends.next_rival(second) is None
    assert not appends.busy


def test_a_rival_is_found_by_its_id() -> None:
    appends = known()
    first, second = AppendUnderWay("a", 1, 0, None), AppendUnderWay("b", 1, 0, None)
    appends.add(first)
    appends.add(second)
    assert appends.under_way("b") is second
    assert appends.under_way("c") is None

"""The blocking facade is written by hand: these tests keep it equal to the async one."""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from cordwood import client, journal, log, sync, wal
from cordwood.journal import ExplainedAction, StoredEvent

PAIRS: list[tuple[type, type]] = [
    (client.Client, sync.Client),
    (log.Log, sync.Log),
    (log.Reader, sync.Reader),
    (log.PartitionsReader, sync.PartitionsReader),
    (wal.Wal, sync.Wal),
    (wal.Region, sync.Region),
    (wal.RegionReader, sync.RegionReader),
    (journal.Journal, sync.Journal),
    (journal.EventReader, sync.EventReader),
    (journal.FollowReader, sync.FollowReader),
    (journal.Recovered, sync.Recovered),
]
TWINS: dict[object, object] = {
    client.Connecting: sync.Client,
    wal.Opening: sync.Region,
    wal.Apply: sync.wal.Apply,
    wal.OnFlushNeeded | None: sync.wal.OnFlushNeeded | None,
    AsyncIterator[str]: Iterator[str],
    AsyncIterator[ExplainedAction]: Iterator[ExplainedAction],
    AsyncIterator[StoredEvent]: Iterator[StoredEvent],
    **dict(PAIRS),
}
DUNDERS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}


def public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_") or name in DUNDERS}


def blocking_signature(function: Any) -> inspect.Signature:
    """An async function's signature as its twin must have it."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        parameter.replace(annotation=TWINS.get(parameter.annotation, parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    returned = signature.return_annotation
    return signature.replace(parameters=parameters, return_annotation=TWINS.get(returned, returned))


MEMBERS = [
    pytest.param(ours, twin, name, id=f"{ours.__name__}.{name}") for ours, twin in PAIRS for name in public(ours)
]


@pytest.mark.parametrize(("ours", "twin", "name"), MEMBERS)
def test_every_member_has_a_twin_with_the_same_signature(ours: type, twin: type, name: str) -> None:
    member = vars(ours)[name]
    other = vars(twin).get(DUNDERS.get(name, name))
    assert other is not None, f"cordwood.sync.{twin.__name__} lacks {name}"
    if isinstance(member, property):
        assert isinstance(other, property)
        assert member.fget is not None
        assert other.fget is not None
        member, other = member.fget, other.fget
    assert not inspect.iscoroutinefunction(other)
    assert inspect.signature(other, eval_str=True) == blocking_signature(member)


def test_connect_has_a_twin_with_the_same_signature() -> None:
    assert inspect.signature(sync.connect, eval_str=True) == blocking_signature(client.connect)


@pytest.mark.parametrize(("ours", "twin"), PAIRS, ids=lambda kind: kind.__name__)
def test_the_twin_has_nothing_of_its_own(ours: type, twin: type) -> None:
    names = {DUNDERS.get(name, name) for name in public(ours)}
    assert {name for name in vars(twin) if not name.startswith("_")} <= names
    assert inspect.get_annotations(twin, eval_str=True) == inspect.get_annotations(ours, eval_str=True)


@pytest.mark.parametrize(("ours", "twin", "name"), [each for each in MEMBERS if each.values[2] not in DUNDERS])
def test_both_say_what_they_do(ours: type, twin: type, name: str) -> None:
    assert inspect.getdoc(vars(ours)[name])
    assert inspect.getdoc(vars(twin)[name])


def test_each_call_takes_its_own_timeout() -> None:
    for kind in (client.Client, log.Log, wal.Wal, wal.Region, journal.Journal):
        for name, member in public(kind).items():
            # A recovery takes the time that its caller's `apply` takes.
            if inspect.iscoroutinefunction(member) and name not in {*DUNDERS, "close", "recover"}:
                assert "timeout" in inspect.signature(member).parameters, f"{kind.__name__}.{name}"


def test_the_comparison_sees_a_default_a_kind_and_a_type_that_differ() -> None:
    wanted = blocking_signature(log.Log.read)
    start, *others = list(wanted.parameters.values())[1:]
    for changed in (
        start.replace(default=0),
        start.replace(annotation=str),
        start.replace(name="begin"),
        start.replace(kind=inspect.Parameter.POSITIONAL_ONLY),
    ):
        differs = wanted.replace(parameters=[changed, *others])
        assert differs != wanted.replace(parameters=[start, *others])
    assert wanted.return_annotation is sync.Reader

"""The task of a replicating job, without Spark: any split of the log, paused tasks and stale ranges (R24, R27)."""

import asyncio
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cordwood import Batch, Conflict, Corrupt, Event, InvalidInput, Timeout, Unavailable, pipeline
from cordwood.pipeline.replicating.job import Job, JobOptions, Places
from cordwood.pipeline.replicating.replica import Range, Replica
from cordwood.store import open_store
from cordwood.sync import Client, Journal
from tests.support.crash.programs import ROOT, Output
from tests.support.pipeline.replicating import TOPIC, behind, play, pointers, rows

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "delete", "purge"]), st.integers(0, 2), st.integers(1, 4)),
    max_size=12,
)


@pytest.fixture
def store(folder: Path) -> str:
    return f"sqlite:{folder / 'store.db'}"


@contextmanager
def opened(folder: Path, store: str, *topics: str, **limits: Any) -> Iterator[Replica]:
    """The part of a job in one of Spark's processes."""
    settings = Job(topics or (TOPIC,), **limits)
    replica = Replica(JobOptions(Places(f"file:{folder}", {}, store, {}), settings))
    try:
        yield replica
    finally:
        replica.close()


@pytest.fixture
def task(folder: Path, store: str) -> Iterator[Replica]:
    with opened(folder, store) as replica:
        yield replica


@pytest.fixture
def journal(cw: Client) -> Journal:
    return cw.journal(TOPIC, replicate=False, partitions=1)


def walk(journal: Journal, steps: list[tuple[str, int, int]]) -> dict[str, dict[int, str]]:
    """Play the steps; the events that a user expects then, by key and number."""
    expected: dict[str, dict[int, str]] = {}
    numbers: dict[str, int] = {}
    for at, (kind, key_number, count) in enumerate(steps):
        key = f"key-{key_number}"
        if kind == "append":
            done = journal.append(key, [Event.text(f"{at} {n}") for n in range(count)])
            assert done.seq_nrs == range(numbers.get(key, 0) + 1, numbers.get(key, 0) + count + 1)
            expected.setdefault(key, {}).update({n: f"{at} {i}" for i, n in enumerate(done.seq_nrs)})
            numbers[key] = done.seq_nrs[-1]
        elif kind == "delete":
            journal.delete(key, through=count)
            expected[key] = {n: text for n, text in expected.get(key, {}).items() if n > count}
        else:
            journal.purge(key)
            expected.pop(key, None)
            numbers.pop(key, None)
    return {key: events for key, events in expected.items() if events}


# One at a time = in any split = at once = the model.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, splits=st.lists(st.integers(1, 8), max_size=12))
def test_every_split_of_a_history_gives_the_rows_of_one_at_a_time(
    cw: Client, folder: Path, store: str, tmp_path: Path, steps: list[tuple[str, int, int]], splits: list[int]
) -> None:
    topic = uuid.uuid4().hex
    journal = cw.journal(topic, store=store, replicate=False, partitions=2)
    expected = walk(journal, steps)
    one_by_one, split, at_once = (f"sqlite:{tmp_path / name}.db" for name in ("single", "split", "whole"))
    info = cw.topic(topic) if steps else cw.create_topic(topic, partitions=2)
    ends = [cw.log(topic, partition).bounds()[1] for partition in range(2)]
    for target, sizes in ((one_by_one, [1]), (split, splits or [3]), (at_once, [100])):
        with opened(folder, target, topic) as replica:
            replica.run(replica.states())
            for partition, end in enumerate(ends):
                stop, turn = 0, 0
                while stop < end:
                    stop, turn = min(end, stop + sizes[turn % len(sizes)]), turn + 1
                    replica.run(replica.replicate(Range(topic, info.id, partition, 0, stop)))
    assert rows(split, topic) == rows(one_by_one, topic) == rows(at_once, topic)
    with cw.journal(topic, store=split, replicate=False, partitions=2) as other:
        found = {id: {event.seq_nr: event.payload for event in other.read(id)} for id in other.ids()}
        assert {id: events for id, events in found.items() if events} == expected
    if steps:
        journal.catch_up()
        assert rows(store, topic) == rows(split, topic)


@pytest.fixture
def paused(folder: Path, store: str) -> Iterator[Output]:
    """A process that replicates on command, and stops itself before a statement."""
    command = [sys.executable, "-m", "tests.support.pipeline.pausing_replica", f"file:{folder}", store]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        output = Output(process)
        yield output
        output.kill()


@pytest.mark.processes
@pytest.mark.slow
def test_a_task_that_is_paused_before_any_statement_changes_nothing(
    cw: Client, folder: Path, store: str, tmp_path: Path, paused: Output
) -> None:
    """A stops before a statement; B applies the batch and then one with a Purge; A wakes up."""
    refused = applied = 0
    settled: list[str] = []
    for statement in range(1, 100):
        topic = f"paused-{statement}"
        journal = cw.journal(topic, store=store, replicate=False, partitions=1)
        journal.append("other", [Event.json(0)])
        journal.append("A", [Event.json(1), Event.json(2), Event.json(3)])
        journal.delete("A", through=1)
        batch = Range(topic, cw.topic(topic).id, 0, 0, cw.log(topic).bounds()[1])
        with opened(folder, store, topic) as b, opened(folder, store, topic, store_timeout=0.8) as hasty:
            b.run(b.states())
            said = len(paused.lines)
            if not begin(paused, batch, statement):
                break  # it has fewer statements
            free = is_free(store)
            if free:
                b.run(b.replicate(batch))
            else:
                with pytest.raises((Timeout, Unavailable), match=r"busy|locked|took more than"):
                    hasty.run(hasty.replicate(batch))
            applied, refused = applied + free, refused + (not free)
            journal.purge("A")
            both = batch._replace(stop=batch.stop + 1)
            if free:
                b.run(b.replicate(both))
                settled = rows(store, topic)
            paused.resume()
            paused.wait_for_lines(said + 1)
            if free:
                assert rows(store, topic) == settled, statement
                assert pointers(store, topic) == {0: both.stop - 1}, statement
            b.run(b.replicate(both))
        whole = f"sqlite:{tmp_path / topic}.db"
        with cw.journal(topic, store=whole, replicate=False, partitions=1) as again:
            again.catch_up()
        assert rows(store, topic) == rows(whole, topic), statement
        assert not any("'A'" in row for row in rows(store, topic)), statement
    else:
        raise AssertionError("it never came to its end")
    assert applied >= 1
    assert refused >= 5


def is_free(store: str) -> bool:
    """Whether no process is inside a transaction that writes."""
    with closing(sqlite3.connect(store.removeprefix("sqlite:"), timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        db.execute("ROLLBACK")
        return True


def begin(paused: Output, batch: Range, statement: int) -> bool:
    """Let the process replicate, and wait until it has stopped itself; False if it is done without that."""
    assert paused.process.stdin is not None
    said, stat = len(paused.lines), Path(f"/proc/{paused.process.pid}/stat")
    paused.process.stdin.write(f"{batch.topic} {batch.topic_id} {batch.stop} {statement}\n".encode())
    paused.process.stdin.flush()
    while len(paused.lines) == said:
        if stat.read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.002)
    return False


def replicated(task: Replica) -> None:
    """Replicate to the end."""
    for each in task.run(task.plan()):
        task.run(task.replicate(each))


def test_netted_appends_stay_dead(cw: Client, folder: Path, store: str, task: Replica, journal: Journal) -> None:
    journal.append("A", [Event.json(n) for n in range(3)])
    (held,) = task.run(task.plan())
    journal.purge("A")
    with opened(folder, store) as other:
        replicated(other)
    assert task.run(task.replicate(held)).records == 0
    assert rows(store) == []


def test_a_purge_and_an_append_in_one_chunk_begin_a_new_life(
    cw: Client, store: str, task: Replica, journal: Journal
) -> None:
    journal.append("A", [Event.text("old") for _ in range(3)])
    journal.purge("A")
    journal.append("A", [Event.text("new")])
    replicated(task)
    with cw.journal(TOPIC, store=store, replicate=False, partitions=1) as again:
        assert [(event.seq_nr, event.payload) for event in again.read("A")] == [(1, "new")]
    assert len([row for row in rows(store) if row.startswith("journal")]) == 1


def test_a_second_purge_spares_the_new_journal(cw: Client, store: str, task: Replica, journal: Journal) -> None:
    journal.append("A", [Event.text("old")])
    journal.purge("A")
    (purge,) = [record for batch in cw.log(TOPIC).read(1, 2) for record in batch]
    journal.append("A", [Event.text("new")])
    # The retry of an append whose ack was lost.
    cw.log(TOPIC).append(Batch.of([purge.value], keys=[purge.key], headers=[list(purge.headers)]))
    replicated(task)
    assert [event.payload for event in journal.read("A")] == ["new"]
    assert len([row for row in rows(store) if row.startswith("journal")]) == 1


def test_a_range_without_actions_moves_the_pointer(cw: Client, store: str, task: Replica, journal: Journal) -> None:
    cw.create_topic(TOPIC, partitions=1)
    with cw.journal(TOPIC, fence="mark", replicate=False) as marking:
        for _ in range(3):
            assert list(marking.read("A")) == []
    end = cw.log(TOPIC).bounds()[1]
    assert end >= 3
    replicated(task)
    assert pointers(store) == {0: end - 1}
    assert task.run(task.plan()) == []


def test_a_topic_that_is_made_anew_is_refused_by_plan_and_task(
    cw: Client, store: str, task: Replica, journal: Journal
) -> None:
    play(journal, 1, steps=5)
    (held,) = task.run(task.plan())
    journal.close()
    cw.delete_topic(TOPIC)
    cw.create_topic(TOPIC, partitions=1)
    with pytest.raises(Conflict, match="the topic's id is"):
        task.run(task.plan())
    with pytest.raises(Conflict, match="the topic's id is"):
        task.run(task.replicate(held))
    assert rows(store) == []


def test_a_pointer_beyond_the_end_of_the_log_is_refused(
    cw: Client, folder: Path, store: str, task: Replica, journal: Journal, tmp_path: Path
) -> None:
    """A folder that was restored from a copy: the topic has its id, but fewer records."""
    journal.append("A", [Event.json(1)])
    copytree(folder, tmp_path / "copy")
    journal.append("A", [Event.json(2)])
    replicated(task)
    with opened(tmp_path / "copy", store) as restored:
        with pytest.raises(Conflict, match=f"{TOPIC}/0 ends at 1, and the store has it up to 1"):
            restored.run(restored.plan())
        with pytest.raises(Conflict, match=f"{TOPIC}/0 ends at 1, and the store has it up to 1"):
            restored.run(restored.replicate(Range(TOPIC, cw.topic(TOPIC).id, 0, 1, 2)))


def test_a_task_on_another_machine_is_refused(
    cw: Client, folder: Path, store: str, task: Replica, journal: Journal, tmp_path: Path
) -> None:
    journal.append("A", [Event.json(1)])
    (held,) = task.run(task.plan())
    with (
        opened(folder, store, machine="another") as elsewhere,
        pytest.raises(InvalidInput, match="this task runs on another one"),
    ):
        elsewhere.run(elsewhere.replicate(held))
    # A container of this machine with a file of its own.
    with (
        opened(folder, f"sqlite:{tmp_path / 'other.db'}") as other,
        pytest.raises(InvalidInput, match="which the driver has bound to it"),
    ):
        other.run(other.replicate(held))
    assert pointers(store) == {}


def test_dead_letters_of_earlier_runs_do_not_count(
    cw: Client, folder: Path, store: str, task: Replica, journal: Journal
) -> None:
    journal.append("A", [Event.json(1)])
    poison = Batch.of([b"x"] * 5, keys=[b"A"] * 5, headers=[[("journal.action", b"no JSON")]] * 5)
    cw.log(TOPIC).append(poison)
    text = f"{TOPIC}/0: 5 records since offset 0 cannot be decoded, over max_dead_letters=4"
    with opened(folder, store, max_dead_letters=4) as strict, pytest.raises(Corrupt, match=text):
        replicated(strict)
    assert pointers(store).get(0, -1) < 1  # it may have passed the sound record before them
    replicated(task)
    cw.log(TOPIC).append(poison)
    with opened(folder, store, max_dead_letters=5, began={TOPIC: pointers(store)}) as second:
        replicated(second)
    assert behind(folder, store) == 0
    assert len([row for row in rows(store) if row.startswith("cordwood_dead_letter")]) == 10


def test_lag_names_what_the_store_does_not_have(cw: Client, folder: Path, store: str, journal: Journal) -> None:
    for number in range(4):
        journal.append("A", [Event.json(number)])
    (late,) = pipeline.lag(folder, [TOPIC], store)
    assert (late.topic, late.partition, late.replicated, late.end, late.records) == (TOPIC, 0, 0, 4, 4)
    assert 0 <= late.seconds < 60
    cw.log(TOPIC).trim(before=2)
    (lost,) = pipeline.lag(folder, "ord.*", store)
    assert (lost.replicated, lost.records) == (0, 4)
    journal.catch_up(accept_loss=True)
    (done,) = pipeline.lag(folder, [TOPIC], store)
    assert (done.replicated, done.records, done.seconds) == (4, 0, 0.0)


def test_a_topic_of_the_scala_library_is_taken_over_on_request(
    cw: Client, folder: Path, store: str, task: Replica
) -> None:
    cw.create_topic(TOPIC, partitions=1)
    with cw.journal(TOPIC, replicate=False, single_writer=True) as journal:
        journal.append("A", [Event.text("1")])
        journal.append("A", [Event.text("2")])

    async def replicate_as_scala() -> None:
        async with await open_store(store) as events:
            bound = await events.binding(TOPIC)
            assert bound is not None
            await events.rebind(TOPIC, bound, msgspec.structs.replace(bound, replicator="scala"))

    asyncio.run(replicate_as_scala())
    with pytest.raises(Conflict, match=r"catch_up\(adopt=True\)"):
        task.run(task.plan())
    task.run(task.adopt())
    for wanted in task.run(task.plan()):
        assert task.run(task.replicate(wanted)).events == 2
    task.run(task.adopt())  # the second time there is nothing to take over
    assert pointers(store) == {0: 1}

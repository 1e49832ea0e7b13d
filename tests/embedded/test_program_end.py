"""A program ends while its threads read: followers end with it, without a word."""

from pathlib import Path

import pytest

from tests.support.folder.scripts import program

# Whether a thread is heard when it fails so late is a matter of luck.
RUNS = 6

BEFORE = """
import threading

seen = threading.Event()

def prepared():
    cw = cordwood.sync.connect(url)
    cw.create_topic("events")
    cw.log("events").append(Batch.of([b"0"]))
    return cw
"""

WAITING = """
log = prepared().log("events")

def follow():
    for batch in log.read(follow=True):
        seen.set()
"""

BESIDE_A_WRITER = """
prepared().close()
log = cordwood.sync.connect(url, read_only=True).log("events")

def follow():
    for batch in log.read(follow=True):
        seen.set()
"""

IN_CONTEXTS = """
prepared().close()

def follow():
    with cordwood.sync.connect(url) as cw, cw.log("events").read(follow=True) as reader:
        for batch in reader:
            seen.set()
"""

BUSY = """
log = prepared().log("events")

def append():
    try:
        while True:
            log.append(Batch.of([bytes(1000)] * 10))
    except cordwood.Unavailable:
        pass

def follow():
    threading.Thread(target=append, daemon=True).start()
    for batch in log.read(follow=True):
        if batch.offsets[-1] > 100:
            seen.set()
"""

CATCHING_UP = """
log = prepared().log("events")
for _ in range(40):
    log.append(Batch.of([bytes(1000)] * 1000))

def follow():
    for batch in log.read(follow=True):
        seen.set()
"""

END = """
threading.Thread(target=follow, daemon=True).start()
seen.wait()
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "following",
    [WAITING, BESIDE_A_WRITER, IN_CONTEXTS, BUSY, CATCHING_UP],
    ids=["waiting", "beside a writer", "in contexts", "busy", "catching up"],
)
def test_a_follower_in_a_daemon_thread_ends_quietly_with_the_program(tmp_path: Path, following: str) -> None:
    for run in range(RUNS):
        with program(BEFORE + following + END, tmp_path / str(run)) as ending:
            ending.ends()


ENDING_WHILE_READING = """
import threading

begun = threading.Event()

def read():
    reader = log.read()
    count = len(next(reader))
    begun.set()
    # When that has ended the interpreter starts no more work, but it waits for this thread.
    threading.main_thread().join()
    try:
        say(count + sum(map(len, reader)))
    except cordwood.Unavailable as error:
        say(error)

cw = cordwood.sync.connect(url)
cw.create_topic("events")
log = cw.log("events")
for _ in range(60):
    log.append(Batch.of([bytes(1000)] * 1000))
threading.Thread(target=read).start()
begun.wait()
"""


@pytest.mark.processes
def test_a_read_that_the_end_of_the_program_ends_is_not_complete(tmp_path: Path) -> None:
    with program(ENDING_WHILE_READING, tmp_path / "data") as ending:
        said = ending.says()
        ending.ends()
    broken_off = (
        "reading events/0 was broken off: the program is ending; let the main thread wait for the one that reads"
    )
    assert said in ("60000", broken_off)


ENDING_WHILE_IN_USE = """
import threading

def use():
    threading.main_thread().join()
    for call in (log.bounds, lambda: log.append(Batch.of([b"late"])), lambda: log.trim(before=1)):
        try:
            call()
        except cordwood.Unavailable as error:
            say(error.outcome)
    region.close()
    wal.close()
    cw.close()
    say("closed")

cw = cordwood.sync.connect(url)
cw.create_topic("events")
log = cw.log("events")
log.append(Batch.of([b"first"]))
wal = cw.wal("metrics")
region = wal.region(7)
region.write(1, [b"log"])
threading.Thread(target=use).start()
"""


@pytest.mark.processes
def test_calls_of_a_thread_that_outlives_the_main_one_are_unavailable(tmp_path: Path) -> None:
    with program(ENDING_WHILE_IN_USE, tmp_path / "data") as ending:
        said = [ending.says()]
        while said[-1] not in ("closed", ""):
            said.append(ending.says())
        assert said[-1] == "closed"
        ending.ends()
    assert set(said[:-1]) <= {"not_written", "unknown"}

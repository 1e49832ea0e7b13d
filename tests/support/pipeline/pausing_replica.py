"""A task of a replicating job, without Spark, that stops itself before one of its statements.

python -m tests.support.pipeline.pausing_replica URL STORE

It reads lines TOPIC TOPIC_ID STOP STATEMENT, and replicates the records below STOP of partition 0.    done | failed
"""

import signal
import sqlite3
import sys
import threading
from typing import Any

from cordwood import CordwoodError
from cordwood.pipeline.replicating.job import Job, JobOptions, Places
from cordwood.pipeline.replicating.replica import Range, Replica
from cordwood.store.sqlite import connection, session
from tests.support.crash.traced_values import say

left = 0


def count_and_stop(statement: str) -> None:
    global left
    left -= 1
    if left == 0:
        # To this thread: one of another thread may stop this one only after its statement.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def set_up_tracing_writer(db: sqlite3.Connection) -> None:
    connection.set_up_writer(db)
    db.set_trace_callback(count_and_stop)


def replica(url: str, store: str, **settings: Any) -> Replica:
    """A task's."""
    return Replica(JobOptions(Places(url, {}, store, {}), Job(**settings)))


def main(url: str, store: str) -> None:
    global left
    vars(session)["set_up_writer"] = set_up_tracing_writer
    task = replica(url, store)
    for line in sys.stdin:
        topic, id, stop, statement = line.split()
        task.run(task.states())  # connects before the statements count
        left = int(statement)
        try:
            task.run(task.replicate(Range(topic, id, 0, 0, int(stop))))
        except CordwoodError as error:
            say("failed", type(error).__name__)
        else:
            say("done", left > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])

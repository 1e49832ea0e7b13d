"""Chapter: a second process that reads alongside the writer."""

import json
import time
from statistics import median

from cordwood.errors import CordwoodError
from cordwood.records import Batch

from .stage import TOPIC, Facts, Stage

TITLE = "A second process that follows"

_RECORDS = 25


async def run(stage: Stage) -> Facts:
    log = stage.cw.log(TOPIC)
    _, stop = await log.bounds()
    command = ["log", "read", TOPIC, "--follow", "--json", "--start", str(stop), "--limit", str(_RECORDS)]
    stage.say("One process writes a folder, any number read it, and see only durable records. Another process runs:")
    stage.show(f"cordwood {' '.join(command)}")
    delays = []
    async with stage.process("-m", "cordwood", *command, "--url", stage.url) as follower:
        assert follower.stdout is not None
        for number in range(_RECORDS):
            (offset,) = await log.append(Batch.of([b"news %d" % number]))
            acked = time.perf_counter()
            line = await follower.stdout.readline()
            if not line:
                raise CordwoodError(f"the following process ended early, with exit code {await follower.wait()}")
            record = json.loads(line)
            if (record["offset"], record["value"]) != (offset, f"news {number}"):
                raise CordwoodError(f"the follower saw {record} instead of record {offset}")
            delays.append(time.perf_counter() - acked)
        pid = follower.pid
        code = await follower.wait()
    # The first delay is mostly the start of Python.
    delay_ms = median(delays[1:]) * 1000
    stage.say(
        f"Process {pid} saw {_RECORDS} records, each {delay_ms:.1f} ms (median) after its ack here, and ended with exit"
        f" code {code}. It took no lock: this process wrote on meanwhile."
    )
    return {"records": _RECORDS, "delay_ms": round(delay_ms, 2), "exit_code": code}

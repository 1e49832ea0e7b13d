"""A process that runs out of file descriptors: logs that are quiet give theirs to those that are written."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, resource, sys
from pathlib import Path
import cordwood
from cordwood import Batch

LOGS, SPARE = 60, 20

async def main():
    async with cordwood.connect(Path(sys.argv[1])) as cw:
        await cw.create_topic("events", partitions=LOGS)
        logs = [cw.log("events", number) for number in range(LOGS)]
        await logs[0].append(Batch.of([b"first"]))
        [value async for batch in logs[0].read() for value in batch.values]
        used = len(os.listdir("/proc/self/fd"))
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + SPARE, hard))
        for turn in range(3):
            for log in logs:
                await log.append(Batch.of([b"%d" % turn]))
        for log in logs[:10]:
            for _ in range(6):  # more than half of a first plog, so that the next plog is made ahead
                await log.append(Batch.of([bytes(100_000)]))
        await asyncio.gather(*(log.append(Batch.of([b"last"])) for log in logs))
        for log in logs[1:]:
            values = [value async for batch in log.read() for value in batch.values]
            assert (values[:3], values[-1]) == ([b"0", b"1", b"2"], b"last"), values

asyncio.run(main())
"""


@pytest.mark.processes
def test_quiet_logs_give_their_descriptors_to_those_that_are_written(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path / "data")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")

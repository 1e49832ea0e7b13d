"""A process that holds a folder for writing, as a service does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import sys
import cordwood
with cordwood.sync.connect(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def writer_of(folder: Path) -> Iterator[int]:
    """The id of the process, which holds the folder for the length of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, f"file:{folder}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process.pid
        finally:
            process.kill()

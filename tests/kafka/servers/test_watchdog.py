"""A server ends with the process that started it, whatever ends that one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cordwood.errors import Unavailable
from cordwood.testing.servers.process import ServerProcess
from tests.support.kafka.processes import gone

pytestmark = pytest.mark.processes

# A process that starts a server, tells of it, and waits.
OWNER = """
import sys, time
from cordwood.testing.servers.process import ServerProcess
server = ServerProcess()
server.start(["sleep", "600"])
{more}
print(server.pid, server._keeper.pid, server.folder, flush=True)
time.sleep(600)
"""

FORKS = """
import os
if (child := os.fork()) == 0:
    time.sleep(600)
open(server.folder / "child", "w").write(str(child))
"""


def owner(code: str) -> tuple["subprocess.Popen[str]", int, int, Path]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    server, keeper, folder = process.stdout.readline().split()
    return process, int(server), int(keeper), Path(folder)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_owner_ends_the_server_and_removes_its_folder(number: signal.Signals) -> None:
    process, server, keeper, folder = owner(OWNER.format(more=""))
    with process:
        assert folder.is_dir()
        process.send_signal(number)
        gone(server)
        gone(keeper)
        assert not folder.exists()


def test_a_paused_server_ends_too() -> None:
    process, server, keeper, _ = owner(OWNER.format(more="import signal; server.signal(signal.SIGSTOP)"))
    with process:
        process.kill()
        gone(server)
        gone(keeper)


def test_a_forked_child_that_lives_on_keeps_no_server() -> None:
    process, server, keeper, folder = owner(OWNER.format(more=FORKS))
    child = int((folder / "child").read_text())
    with process:
        process.kill()
        gone(server)
        gone(keeper)
    assert not folder.exists()
    os.kill(child, signal.SIGKILL)  # fails if it is not there any more: then nothing was shown


def test_an_interrupt_of_the_terminal_is_not_for_the_server() -> None:
    with ServerProcess() as server:
        server.start(["sleep", "600"])
        assert server.pid is not None
        assert os.getsid(server.pid) != os.getsid(0)


def test_a_program_that_is_not_there() -> None:
    with ServerProcess() as server, pytest.raises(Unavailable, match=r"cannot be started.*no-such-program"):
        server.start(["no-such-program"])


def test_a_server_can_be_started_again_in_its_folder(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        assert server.folder.parent == tmp_path
        for number in (1, 2):
            server.start(["sh", "-c", f"echo run {number}; echo {number} > kept"])
            assert server.wait(30) == 0
        assert server.log_tail() == "run 1\nrun 2"
        assert (server.folder / "kept").read_text() == "2\n"


def test_a_server_that_ended_takes_no_harm_from_signals() -> None:
    with ServerProcess() as server:
        server.start(["true"])
        assert server.wait(30) == 0
        server.signal(signal.SIGKILL)
        assert server.wait(0) == 0


BUSY = """
import hashlib, threading
data = bytes(1 << 20)
def work():
    while True:
        hashlib.sha256(data)  # which lets other threads run
for _ in range(6):
    threading.Thread(target=work).start()
"""


def test_a_paused_server_stands_still_when_that_is_said() -> None:
    """Else an append behind a pause may still be acked, where the machine is busy."""
    with ServerProcess() as server:
        server.start([sys.executable, "-c", BUSY])
        for _ in range(50):
            server.signal(signal.SIGSTOP)
            assert set(_states(server.pid)) == {"T"}
            server.signal(signal.SIGSTOP)  # twice is fine
            server.signal(signal.SIGCONT)
            time.sleep(0.005)
        server.signal(signal.SIGKILL)
        assert server.wait(10) == -signal.SIGKILL
        server.signal(signal.SIGSTOP)  # one that ended gets none


def _states(pid: int | None) -> list[str]:
    """R: running, S: asleep, T: stopped; one for each thread."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]

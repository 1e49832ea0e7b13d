"""A server's process and folder, which end with this process, also if it is killed."""

import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from cordwood.errors import Unavailable

from . import keeper

_LINES_SHOWN = 25


class ServerProcess:
    """One server, which a small process of its own (see `keeper`) keeps in a folder until `close`.

    It can be started again after it ended: `folder` and its files stay until `close`.

    ```python
    with ServerProcess() as server:
        server.start(["etcd", "--data-dir", str(server.folder)])
        server.signal(signal.SIGKILL)
        server.wait(10)
    ```
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Its folder is made in `parent`, else in the system's temporary folder."""
        # A session of its own: an interrupt from the terminal must not end servers before the tests that use them.
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, *([] if parent is None else [str(parent)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        _open.add(self)
        self._pid: int | None = None
        self.folder = Path(self._answer()["folder"])

    @property
    def pid(self) -> int | None:
        """The server's process id; None before its first start."""
        return self._pid

    @property
    def log(self) -> Path:
        """The file with all output of the server, of all its runs."""
        return self.folder / "server.log"

    def start(self, command: Sequence[str]) -> None:
        """Start the server; it must not be running."""
        self._pid = self._order({"start": list(command)})["pid"]

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal, unless it has ended."""
        self._order({"signal": int(number)})

    def wait(self, seconds: float) -> int | None:
        """The exit status (minus the signal that killed it), or None if it still runs after so many seconds."""
        status: int | None = self._order({"wait": seconds})["status"]
        return status

    def log_tail(self) -> str:
        """The last lines that the server printed."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return "\n".join(lines[-_LINES_SHOWN:]) or "(it said nothing)"

    def close(self) -> None:
        """Kill the server and remove its folder; a second call has no effect."""
        if self in _open:
            _open.discard(self)
            self._keeper.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        if self not in _open:
            raise Unavailable(f"the server of {self.folder} is closed: make a new one", reason="closed")
        assert self._keeper.stdin is not None
        try:
            self._keeper.stdin.write(json.dumps(order) + "\n")
            self._keeper.stdin.flush()
        except BrokenPipeError:
            pass  # the next read gets the keeper's answer, or its end
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        if not line:
            raise Unavailable(
                f"the process that keeps a server is gone (status {self._keeper.poll()})", reason="failed"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unavailable(f"a server cannot be started: {answer['error']}", reason="failed")
        return answer

    def _let_go(self) -> None:
        """In a forked child: close the pipe, which only the owner may hold; else the server outlives the owner."""
        assert self._keeper.stdin is not None
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._keeper.stdin.fileno(), inheritable=False)
        os.close(nothing)


_open: "weakref.WeakSet[ServerProcess]" = weakref.WeakSet()


def _after_fork() -> None:
    for server in list(_open):
        server._let_go()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)

"""Keeps one server for the process that started it: a script, run in a process of its own.

It makes the server's folder, in the one that its argument names, and starts the server as its child. Each order is a
line of JSON on its standard input, and so is each answer on its standard output:

    (at its start)              {"folder": "/tmp/…"}
    {"start": ["java", …]}      {"pid": 4711}               output goes to server.log in the folder
    {"signal": 9}               {"pid": 4711}               after a SIGSTOP: once all its threads have stopped
    {"wait": 2.5}               {"status": -9}              null if it still runs after so many seconds

When its input ends, because its owner closed it or was killed, it kills the server and removes the folder. A pipe
reports the death of a whole process; the kernel's parent-death signal reports that of the thread that forked. The
server's parent sends the signals, so that they never reach another process with a reused number.

Standard library only, and no import from the package: it starts in 20 ms.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any


class ServerKeeper:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        ((verb, argument),) = order.items()
        if verb == "start":
            return {"pid": self._start(argument)}
        assert self._server is not None, f"{verb} before start"
        if verb == "signal":
            self._signal(self._server, argument)
            return {"pid": self._server.pid}
        assert verb == "wait", verb
        try:
            return {"status": self._server.wait(argument)}
        except subprocess.TimeoutExpired:
            return {"status": None}

    def end(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, server: "subprocess.Popen[bytes]", number: int) -> None:
        server.send_signal(number)
        if number == signal.SIGSTOP and server.poll() is None:
            # One thread gets the signal, and stops the others only when it runs on a busy processor.
            os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _start(self, command: list[str]) -> int:
        assert self._server is None or self._server.poll() is not None, "the server runs already"
        with open(os.path.join(self._folder, "server.log"), "ab") as log:
            self._server = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        return self._server.pid


def main() -> None:
    # These are for the owner, and this process ends with its owner. They are handled, not ignored: the server would
    # inherit ignored signals, and Java would then never stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    folder = tempfile.mkdtemp(prefix="cordwood-server-", dir=sys.argv[1] if len(sys.argv) > 1 else None)
    keeper = ServerKeeper(folder)
    try:
        _say({"folder": folder})
        for line in sys.stdin:
            try:
                reply = keeper.obey(json.loads(line))
            except OSError as error:
                reply = {"error": str(error)}
            _say(reply)
    except BrokenPipeError:
        pass  # the owner ended between an order and its answer
    finally:
        keeper.end()


def _say(reply: dict[str, Any]) -> None:
    print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()

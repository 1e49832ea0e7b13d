"""The command `cordwood`, which is also `python -m cordwood`: Ctrl-C is quiet here from its first line on.

Importing the command takes most of the time until it does anything, so an interrupt mostly comes then. Raised there, a
KeyboardInterrupt may end in a callback of the import system, which prints it and continues. So until the work begins,
an interrupt ends the process at once: it has nothing to undo yet.
"""

# Not `signal`, which takes 4 ms to import: an interrupt before the handler is set prints a traceback.
import _signal  # type: ignore[import-not-found]  # built into the interpreter
import os
import sys

_INTERRUPTED = 130  # as `cordwood.cli` has it, which is not imported yet


def main() -> int:
    """Run the command with the process's arguments, and return its exit code."""
    # Not if the parent process has interrupts ignored, as a shell does for a program in the background.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _exit)
    try:
        from cordwood.cli import main as run

        return run(on_parsed=_raise_interrupts)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _exit(*_: object) -> None:
    os._exit(_INTERRUPTED)


def _raise_interrupts() -> None:
    """From now on there is work to end in an orderly way."""
    if _signal.getsignal(_signal.SIGINT) is _exit:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())

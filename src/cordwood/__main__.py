"""The command `cordwood`, which is also `python -m cordwood`: Ctrl-C is quiet here from the first moment on.

Importing what the command needs takes most of the time until it does anything, so it is part of what may be
interrupted.
"""

import sys

_INTERRUPTED = 130  # as `cordwood.cli` has it, which is not imported yet


def main() -> int:
    """Run the command with the process's arguments, and return its exit code."""
    try:
        from cordwood.cli import main as run

        return run()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

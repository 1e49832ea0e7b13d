"""Whether this machine has the Java that Spark and Kafka need; also a script, for `make`: it names the missing part.

Standard library only: `make` runs it before anything is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

JAVA_MIN = 17

_SECONDS_MAX = 30


def java_command() -> str | None:
    """The program that runs Java here: that of JAVA_HOME, else the first of PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_problem(user: str) -> str | None:
    """The problem with the Java that `user` would start, in one line; None if there is none.

    ```python
    if problem := java_problem("Spark"):
        sys.exit(problem)
    ```
    """
    java = java_command()
    advice = f"install Java {JAVA_MIN} or newer (Debian: openjdk-{JAVA_MIN}-jre-headless), or set JAVA_HOME to one"
    if java is None:
        return f"{user} needs Java, and there is none: {advice}"
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{user} needs Java, and {java} cannot be run ({_reason(error)}): {advice}"
    version = _version(ran.stderr + ran.stdout)
    if version is None:
        return f"{user} needs Java, and {java} does not tell its version: {advice}"
    if version < JAVA_MIN:
        return f"{user} needs Java {JAVA_MIN} or newer, and {java} is Java {version}: {advice}"
    return None


def _version(text: str) -> int | None:
    """The feature release: 17 of "17.0.15", 8 of "1.8.0_412"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return None if found is None else int(found[1])


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else f"no answer in {_SECONDS_MAX} s"


if __name__ == "__main__":
    sys.exit(java_problem(" ".join(sys.argv[1:]) or "cordwood"))

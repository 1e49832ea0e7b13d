"""Running Cassandra's classes."""

import os
import shutil
from pathlib import Path

from cordwood.testing.servers.java import java_line
from cordwood.testing.servers.maven import Say, jar_folder, to_stderr

USER = "Cassandra"
_POM = Path(__file__).with_name("node.pom.xml")

# Classes of Java that Cassandra opens by reflection. Without the first three it does not start.
_OPENED = (
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.nio",
)


def fetch_jars(say: Say = to_stderr) -> Path:
    """The folder with the jars of Cassandra; fetches missing jars."""
    return jar_folder(_POM, "cassandra", say)


def java() -> list[str]:
    """The command line up to the options and the class to run."""
    return [
        *_without_memory_lock(),
        *java_line(fetch_jars(), USER),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
        "-Djdk.attach.allowAttachSelf=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-XX:+ExitOnOutOfMemoryError",
    ]


def _without_memory_lock() -> list[str]:
    """A node that may lock its memory pins its whole heap: root may, unless it gives that right up."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--bounding-set=-ipc_lock"] if os.geteuid() == 0 and setpriv is not None else []

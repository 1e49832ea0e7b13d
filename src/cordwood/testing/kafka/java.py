"""Running Kafka's classes: its jars, Java, and an archive of loaded classes that halves the start time."""

import hashlib
import os
from functools import cache
from pathlib import Path

from cordwood.errors import Unavailable
from cordwood.java import java_command, java_problem
from cordwood.testing.servers.maven import Say, jar_folder, to_stderr

_POM = Path(__file__).with_name("broker.pom.xml")


def fetch_jars(say: Say = to_stderr) -> Path:
    """The folder with the jars of Kafka; fetches missing jars."""
    return jar_folder(_POM, "kafka", say)


def java() -> list[str]:
    """The command line up to the options and the class to run."""
    classes = ":".join(str(jar) for jar in sorted(fetch_jars().glob("*.jar")))
    command = [_program(), "-cp", classes, "-Dlog4j2.level=WARN", "-XX:-UsePerfData"]
    archive = class_archive()
    # Java itself checks whether the archive fits, and continues without it if not.
    return [*command, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else command


def class_archive() -> Path:
    """The path of the archive of classes, which may not exist yet: one for each set of jars and each Java."""
    program = os.stat(os.path.realpath(_program()))
    key = hashlib.sha256(f"{program.st_ino} {program.st_size} {program.st_mtime_ns}".encode()).hexdigest()[:16]
    return fetch_jars() / f"classes-{key}.jsa"


@cache
def _program() -> str:
    if problem := java_problem("Kafka"):
        raise Unavailable(problem, reason="missing-java")
    program = java_command()
    assert program is not None
    return program

"""Running a server's classes: Java, its jars, and an archive of loaded classes that halves the start time."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from cordwood.errors import Unavailable
from cordwood.java import java_command, java_problem

from .maven import Say, hold_lock


def java_line(jars: Path, user: str) -> list[str]:
    """The command line up to the options and the class to run; `user` names the server that needs Java."""
    classes = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    command = [_program(user), "-cp", classes, "-XX:-UsePerfData"]
    archive = class_archive(jars, user)
    # Java itself checks whether the archive fits, and continues without it if not.
    return [*command, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else command


def class_archive(jars: Path, user: str) -> Path:
    """The path of the archive of classes, which may not exist yet: one for each set of jars and each Java."""
    program = os.stat(os.path.realpath(_program(user)))
    key = hashlib.sha256(f"{program.st_ino} {program.st_size} {program.st_mtime_ns}".encode()).hexdigest()[:16]
    return jars / f"classes-{key}.jsa"


def archive_classes(jars: Path, user: str, run: Callable[[list[str]], None], say: Say) -> None:
    """Make the archive of classes, unless it exists: `run` starts a server with these options, and stops it."""
    archive = class_archive(jars, user)
    if archive.exists():
        return
    name = user.lower()
    with hold_lock(archive.with_suffix(".lock"), f"{name}: another process archives the classes, waiting for it", say):
        if archive.exists():
            return
        say(f"{name}: archiving the classes, so that servers start in half the time, once")
        part = archive.with_suffix(".part")
        # At its end Java writes the classes that it has loaded.
        run([f"-XX:ArchiveClassesAtExit={part}", "-Xlog:cds=off"])
        if part.exists():  # else this Java does not support it, and servers start without
            os.replace(part, archive)


@cache
def _program(user: str) -> str:
    if problem := java_problem(user):
        raise Unavailable(problem, reason="missing-java")
    program = java_command()
    assert program is not None
    return program

"""Records that other processes have prepared, and that the folder's one writer appends: all of them, once.

`file` (frames that wait in a file), `plan` (what a commit is going to append, and where), `commit` (deciding,
appending, and going on after a crash), `leftovers` (names of files, and which of them nobody needs).
docs/formats/staged.md has the formats.

A commit is decided when its plan is in the coordinator. From then on it is finished: by the process that decided it, or
by the next opening for writing, before anybody else can append.
"""

from .commit import StagedCommits
from .file import StagedFile, StagedWriter
from .leftovers import StagedName, Write, abort_attempt, is_aborted, remove_staged

__all__ = [
    "StagedCommits",
    "StagedFile",
    "StagedName",
    "StagedWriter",
    "Write",
    "abort_attempt",
    "is_aborted",
    "remove_staged",
]

"""Records that other processes have prepared, and that the folder's one writer appends: all of them, once.

`file` (frames in a file, ready to append), `plan` (which records a commit appends, and where), `commit` (decides,
appends, and continues after a crash), `leftovers` (names of files, and which of them are no longer needed).
docs/formats/staged.md has the formats.

A commit is decided when its plan is in the coordinator. From then on it will be finished: by the process that decided
it, or by the next open for writing, before any caller can append.
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

"""The place of a folder: whether it may hold logs, and what an ack promises there."""

import os
from pathlib import Path

from cordwood.errors import InvalidInput

COORDINATOR = "coordinator.db"

DURABILITY = "synced: an ack means fdatasync on 1 of 1 replicas"

_OURS = frozenset({COORDINATOR, f"{COORDINATOR}-wal", f"{COORDINATOR}-shm", "published", "plogs", "staged"})
_HARMLESS = ("lock", "lost+found")
_WITHOUT_DISK = ("tmpfs", "ramfs", "devtmpfs")
_MOUNTS = Path("/proc/self/mountinfo")


def check_ours(path: Path) -> None:
    """`InvalidInput` for a folder with files of another program: logs among them could be deleted with them.

    A folder that is missing or empty may hold logs. So may one that holds any part of ours: a lost part is damage.
    """
    if not path.is_dir():
        return
    names = os.listdir(path)
    if not _OURS.isdisjoint(names):
        return
    foreign = sorted(name for name in names if name not in _HARMLESS and not name.startswith("."))
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise InvalidInput(
            f"{path} is not a folder of logs: it holds {foreign[0]!r}{more}, and no {COORDINATOR}:"
            " name an empty folder, or one that Cordwood has made"
        )


def durability_of(path: Path) -> str:
    """What an ack promises in this folder, in words.

    >>> durability_of(Path("/proc"))
    'synced: an ack means fdatasync on 1 of 1 replicas'
    """
    kind = file_system_of(path)
    if kind in _WITHOUT_DISK:
        return f"memory only: {kind} has no disk, so an ack survives a crash of the process, not of the machine"
    return DURABILITY


def file_system_of(path: Path) -> str | None:
    """The kind of file system that a folder is on; None where the system does not tell."""
    try:
        device = os.stat(path).st_dev
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts:
        fields, _, kind = line.partition(" - ")
        if fields.split()[2:3] == [wanted]:
            return kind.split()[0]
    return None

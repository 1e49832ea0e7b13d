"""The plan of a commit: stored before the first append, so that a later process can finish the commit."""

import json
from dataclasses import asdict, dataclass

from crc32c import crc32c

from cordwood.errors import Corrupt

from .file import StagedFile

_VERSION = 1

GIVEN_UP = "given up"
"""An operator puts this in the place of a plan that can no longer be finished (docs/operating.md)."""


@dataclass(frozen=True, slots=True)
class PlannedLog:
    """The offset at which a log ended when the commit was decided, and how many records it gets."""

    topic_id: int
    partition: int
    start: int
    records: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Which staged files are appended, in this order, and at which offset of each log that begins."""

    sink: str
    batch: int | None
    files: tuple[StagedFile, ...]
    logs: tuple[PlannedLog, ...]

    @property
    def records(self) -> int:
        return sum(log.records for log in self.logs)

    def encode(self) -> str:
        files = [{**file._asdict(), "id": f"{file.id:016x}"} for file in self.files]
        logs = [asdict(log) for log in self.logs]
        fields = {"version": _VERSION, "sink": self.sink, "batch": self.batch, "files": files, "logs": logs}
        text = json.dumps(fields, sort_keys=True)
        return f"{crc32c(text.encode()):08x}\n{text}\n"

    @staticmethod
    def decode(text: str) -> "Plan":
        """`Corrupt` if its checksum is wrong, or its version is unknown."""
        checksum, _, body = text.partition("\n")
        if f"{crc32c(body.rstrip(chr(10)).encode()):08x}" != checksum:
            raise Corrupt(
                f"the plan in coordinator.db is damaged: its checksum is not {checksum[:8]!r};"
                " restore the folder from a copy, or read it with read_only=True"
            )
        fields = json.loads(body)
        if fields["version"] != _VERSION:
            raise Corrupt(
                f"the plan in coordinator.db has version {fields['version']}; this Cordwood reads version {_VERSION}"
            )
        files = tuple(StagedFile(file["name"], int(file["id"], 16), file["size"]) for file in fields["files"])
        logs = tuple(PlannedLog(**log) for log in fields["logs"])
        return Plan(fields["sink"], fields["batch"], files, logs)

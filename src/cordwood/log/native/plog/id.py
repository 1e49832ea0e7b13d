"""The name of a plog."""

import secrets
from typing import NamedTuple

from cordwood.errors import Corrupt


class PlogId(NamedTuple):
    """(cluster, group, random part): enough to find the servers that hold the plog.

    >>> PlogId.parse("local/0/00000000000000ff").random
    255
    """

    cluster: str
    group: str
    random: int

    @classmethod
    def new(cls, cluster: str, group: str) -> "PlogId":
        # An empty slot or a wiped header reads as zero, so zero never names a plog.
        return cls(cluster, group, secrets.randbits(64) or 1)

    @classmethod
    def parse(cls, text: str) -> "PlogId":
        try:
            cluster, group, random = text.split("/")
            return cls(cluster, group, int(random, 16))
        except ValueError as error:
            raise Corrupt(f"not the id of a plog: {text!r}; expected cluster/group/16 hex digits") from error

    @property
    def file_name(self) -> str:
        return f"{self.random:016x}.plog"

    def __str__(self) -> str:
        return f"{self.cluster}/{self.group}/{self.random:016x}"

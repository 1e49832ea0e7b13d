"""What the owner of a region has beside what every reader has."""

from __future__ import annotations

from dataclasses import dataclass

from cordwood.errors import CordwoodError
from cordwood.wal.cleaner import Cleaner
from cordwood.wal.opened import RegionKeeper, RegionWriter
from cordwood.wal.rounds import Rounds


@dataclass(slots=True)
class Owning:
    """One opening for writing."""

    writer: RegionWriter
    keeper: RegionKeeper
    cleaner: Cleaner
    rounds: Rounds | None = None

    @property
    def failure(self) -> CordwoodError | None:
        """Why something in the background failed, and has not gone well since."""
        return (self.rounds and self.rounds.failure) or self.cleaner.failure or self.keeper.failure

    async def close(self) -> None:
        self.writer.closed = True  # before anything is awaited: what a cancelled close leaves takes no writes
        if self.rounds is not None:
            await self.rounds.close()
        await self.writer.close()
        await self.keeper.close()

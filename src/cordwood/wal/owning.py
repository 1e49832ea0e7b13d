"""What the owner of a region has beside what every reader has."""

from __future__ import annotations

from dataclasses import dataclass

from cordwood.errors import CordwoodError
from cordwood.wal.cleaning.background import BackgroundCleaner
from cordwood.wal.cleaning.cleaner import Cleaner
from cordwood.wal.formats.interface import RegionMetaWriter, RegionWriter


@dataclass(slots=True)
class Owning:
    """One opening for writing."""

    writer: RegionWriter
    meta_writer: RegionMetaWriter
    cleaner: Cleaner
    background: BackgroundCleaner | None = None

    @property
    def failure(self) -> CordwoodError | None:
        """Why something in the background failed, and has not gone well since."""
        return (self.background and self.background.failure) or self.cleaner.failure or self.meta_writer.failure

    async def close(self) -> None:
        self.writer.closed = True  # before anything is awaited: what a cancelled close leaves takes no writes
        if self.background is not None:
            await self.background.close()
        await self.writer.close()
        await self.meta_writer.close()

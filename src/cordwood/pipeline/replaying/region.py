"""The state of a region as it is now, for planning a replay. Nothing is appended (R16)."""

from cordwood.errors import Corrupt
from cordwood.log.engines import load
from cordwood.pipeline.blocking import run
from cordwood.wal.formats.interface import OpenRegion
from cordwood.wal.record import NOBODY
from cordwood.wal.wal import read_region

from .options import ReplayOptions

_TIMEOUT_SECONDS = 30.0


def look(options: ReplayOptions) -> OpenRegion:
    """Read the region; `Corrupt` if it has records, and nothing in them says that they are of this codec."""
    return run(_look(options))


async def _look(options: ReplayOptions) -> OpenRegion:
    wanted = options.wanted
    engine = await load(options.url, "engine")(options.url, timeout=_TIMEOUT_SECONDS, wait=0.0, read_only=True)
    try:
        found = await read_region(
            engine,
            wanted.namespace,
            wanted.region,
            wanted.codec,
            wanted.layout,
            permissive=wanted.permissive,
            timeout=_TIMEOUT_SECONDS,
        )
    except Corrupt as error:
        raise Corrupt(f"{error} (the region was read with codec={wanted.codec!r})") from error
    finally:
        await engine.close(timeout=_TIMEOUT_SECONDS)
    data = found.data
    unowned = data.state.fence.owner == NOBODY and not found.meta.snapshot_offset
    if not data.decoder.bare and unowned and data.state.next_offset > data.start:
        raise Corrupt(
            f"{data.log.name} has records, but no owner record and no snapshot: it is no region with"
            f" codec={wanted.codec!r}; name its own with codec="
        )
    return found

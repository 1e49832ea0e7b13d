"""The real end of a plog that was not closed (R1).

After a crash the last plog of a log holds whole frames up to some position. After that comes nothing, half a frame, or
even whole frames after a hole: a disk may persist a later write and lose an earlier one. Every frame has the synced end
that was known when it was written. A broken frame *below* the highest such end was durable once: that is damage, and
raises `Corrupt`. A broken frame above it never was: that is the torn tail, which is truncated with all that follows.
"""

import re
from typing import NamedTuple

from cordwood.errors import Corrupt
from cordwood.log.native.env.disk import File
from cordwood.records import FRAME_ALIGNMENT, FrameHeader, check_frame, decode_header
from cordwood.records.frame import MAGIC

from .id import PlogId
from .seal import SEAL_BYTES, Seal

# A pattern finds it in any buffer, without a copy.
_MAGIC = re.compile(re.escape(MAGIC))


class Tail(NamedTuple):
    """The end of the last whole frame, with the offset, the timestamp and the synced end there."""

    end: int
    next_offset: int
    max_timestamp: int
    synced_end: int
    """The highest synced end that a frame, or the caller, vouches for. Never above `end`."""
    synced_offset: int
    """The offset that follows at `synced_end`."""
    torn_bytes: int = 0
    """How much a torn write left after `end`, up to the last byte that is not zero; 0 where nobody asked."""


def find_tail(
    file: File,
    id: PlogId,
    *,
    start: int = 0,
    next_offset: int | None = None,
    max_timestamp: int = -1,
    synced_end: int = 0,
    measure_torn: bool = False,
) -> Tail:
    """Walk the frames from `start`, a frame boundary up to which the plog is known to be synced.

    `next_offset` is the offset of the first record there (None: any). `synced_end` counts if it is higher than the ends
    that the frames have. Reads the plog from `start` on.
    """
    data = file.read(max(0, file.size() - start), start)
    at, synced_end = 0, max(start, synced_end)
    boundaries = {start: next_offset or 0}
    while (header := _frame_at(data, at, id, start, next_offset)) is not None:
        next_offset = header.next_offset
        max_timestamp = max(max_timestamp, header.timestamp_max)
        synced_end = max(synced_end, header.synced_end)
        at += header.length
        boundaries[start + at] = next_offset
    end = start + at
    vouched = max(synced_end, _highest_synced_end(data, at, id, start))
    if vouched > end or synced_end not in boundaries:
        raise Corrupt(
            f"plog {id} is damaged at byte {end}: up to byte {vouched} it was synced, but no whole frame is there;"
            " restore the folder from a copy"
        )
    torn_bytes = len(bytes(data[at:]).rstrip(b"\0")) if measure_torn else 0
    return Tail(end, boundaries[end], max_timestamp, synced_end, boundaries[synced_end], torn_bytes)


def sealed_end(file: File, id: PlogId) -> int:
    """The end in the plog's own seal, which a clean close writes; 0 if it has none."""
    seal = Seal.decode(file.read(SEAL_BYTES, max(0, file.size() - SEAL_BYTES)))
    return seal.end if seal is not None and seal.plog == id.random else 0


def make_durable(file: File, tail: Tail) -> None:
    """Sync the whole frames that a crash left, before they count as part of the log (R8).

    They may be in the page cache alone. If the crashed process saw a sync of them fail, the kernel treats them as
    written, and would sync nothing: so they are written again, unchanged.
    """
    if tail.end > tail.synced_end:
        file.write([file.read(tail.end - tail.synced_end, tail.synced_end)], tail.synced_end)
    file.sync()


def _frame_at(data: memoryview, at: int, id: PlogId, start: int, first_offset: int | None) -> FrameHeader | None:
    """The whole, undamaged frame of this plog at this position, or None."""
    try:
        header = decode_header(data, at)
        if header.plog != id.random or header.position != start + at:
            return None
        if first_offset is not None and header.first_offset != first_offset:
            return None
        check_frame(data, at, header)
    except Corrupt:
        return None
    return header


def _highest_synced_end(data: memoryview, at: int, id: PlogId, start: int) -> int:
    """The highest synced end in whole frames after the first broken place."""
    highest = 0
    for found in _MAGIC.finditer(data, at):
        place = found.start()
        if (start + place) % FRAME_ALIGNMENT == 0 and (header := _frame_at(data, place, id, start, None)) is not None:
            highest = max(highest, header.synced_end)
    return highest

"""Sizes and flags of the frame that both a batch and its frame must agree on.

A batch knows its flags and sizes from the moment it is made. So the size of a frame is arithmetic, and the limit can be
checked before anything is encoded.
"""

from __future__ import annotations

import sys

# The bytes on the disk are the columns in memory: nothing swaps them.
if sys.byteorder != "little":
    raise ImportError("cordwood needs a little-endian machine: its columns are views of little-endian bytes")

FRAME_BYTES_MAX = 2 * 1024 * 1024
"""The most bytes of one frame, header and padding included; also the limit of one append to a plog."""

FRAME_HEADER_BYTES = 96
"""Bytes of a frame before its columns."""

LARGE_FRAME_BYTES = 512 * 1024
"""From this length on, a thread of its own for the check of a frame pays off."""

FRAME_ALIGNMENT = 8
"""Frames, and every column in a frame, begin at a multiple of this many bytes, as Arrow requires."""

FLAG_KEYS = 1
FLAG_KEY_NULLS = 2
FLAG_VALUE_NULLS = 4
FLAG_HEADERS = 8
FLAG_HEADER_NULLS = 16
FLAG_TIMESTAMPS = 32
FLAGS_KNOWN = 63

# The cost of a record in addition to its bytes: timestamp 8, value, key and list offset 4 each, and two bits of
# validity. It assumes every column, since a batch's neighbours in the frame decide which ones there are.
WEIGHT_RECORD_BYTES = 21
# A header: name and value offset 4 each, and a bit of validity.
WEIGHT_HEADER_BYTES = 9

FRAME_SLACK_BYTES = 256
"""The most bytes of a frame in addition to the weights of its batches.

The header (96), padding of 13 columns (7 each), the last entry of five offset columns (4 each), and the begun bytes of
three bitmaps: 210, rounded up.
"""

GROUP_WEIGHT_MAX = FRAME_BYTES_MAX - FRAME_SLACK_BYTES
"""Batches whose weights add up to at most this always fit into one frame.

A batch that weighs more may still fit, alone: `frame_bytes(batch) <= FRAME_BYTES_MAX` decides.

>>> from cordwood.records import Batch
>>> group = [Batch.of([b"x" * 1000]) for _ in range(256)]
>>> sum(batch.weight for batch in group) <= GROUP_WEIGHT_MAX
True
"""


def frame_size(
    flags: int,
    count: int,
    value_bytes: int,
    key_bytes: int,
    header_count: int,
    name_bytes: int,
    header_value_bytes: int,
) -> int:
    """The exact bytes of a frame with these columns.

    >>> frame_size(0, 2, 5, 0, 0, 0, 0)  # header 96, three offsets in 16, five bytes in 8
    120
    """
    offsets = (4 * count + 11) & -8
    bitmap = (count + 63) >> 6 << 3
    size = FRAME_HEADER_BYTES + offsets + ((value_bytes + 7) & -8)
    if not flags:  # by far the most common frame
        return size
    if flags & FLAG_TIMESTAMPS:
        size += 8 * count
    if flags & FLAG_VALUE_NULLS:
        size += bitmap
    if flags & FLAG_KEYS:
        size += offsets + ((key_bytes + 7) & -8)
        if flags & FLAG_KEY_NULLS:
            size += bitmap
    if flags & FLAG_HEADERS:
        header_offsets = (4 * header_count + 11) & -8
        size += offsets + 2 * header_offsets + ((name_bytes + 7) & -8) + ((header_value_bytes + 7) & -8)
        if flags & FLAG_HEADER_NULLS:
            size += (header_count + 63) >> 6 << 3
    return size

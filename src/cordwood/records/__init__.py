"""The stored data: records, batches of them as columns, and the frame that holds a batch as bytes.

A reader starts with `batch` (the application's view), continues with `column` (the layout in memory) and ends with
`frame` (the layout on the disk; `docs/formats/frame.md` has the picture). `layout` has the sizes that batch and frame
must agree on, `arrow` the conversion to pyarrow.

This package may import `cordwood.errors` and nothing else of Cordwood. Only `to_arrow` loads pyarrow.

>>> from cordwood.records import Batch, decode_frame, encode_frame
>>> batch = Batch.of([b"a", None], keys=[b"k", None])
>>> frame = encode_frame(
...     [batch], plog=7, position=0, first_offset=5, epoch=1, synced_end=0, now_ms=1_700_000_000_000
... )
>>> stored = decode_frame(frame)
>>> stored.offsets, list(stored.values), list(stored.keys)
(range(5, 7), [b'a', None], [b'k', None])
"""

from cordwood.records.batch import Batch
from cordwood.records.column import BinaryColumn
from cordwood.records.encode import encode_frame, frame_bytes, frame_of
from cordwood.records.frame import (
    Buffer,
    FrameCut,
    FrameHeader,
    check_frame,
    decode_frame,
    decode_header,
    is_whole,
)
from cordwood.records.headers import HeaderColumn
from cordwood.records.layout import (
    FRAME_ALIGNMENT,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    FRAME_SLACK_BYTES,
    GROUP_WEIGHT_MAX,
    LARGE_FRAME_BYTES,
)
from cordwood.records.pieces import Frame, Piece
from cordwood.records.record import Record, StoredRecord, record_bytes
from cordwood.records.stored import StoredBatch

__all__ = [
    "FRAME_ALIGNMENT",
    "FRAME_BYTES_MAX",
    "FRAME_HEADER_BYTES",
    "FRAME_SLACK_BYTES",
    "GROUP_WEIGHT_MAX",
    "LARGE_FRAME_BYTES",
    "Batch",
    "BinaryColumn",
    "Buffer",
    "Frame",
    "FrameCut",
    "FrameHeader",
    "HeaderColumn",
    "Piece",
    "Record",
    "StoredBatch",
    "StoredRecord",
    "check_frame",
    "decode_frame",
    "decode_header",
    "encode_frame",
    "frame_bytes",
    "frame_of",
    "is_whole",
    "record_bytes",
]

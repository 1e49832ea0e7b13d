"""The records of a copy: as they are, but that an Append names the life that it would have begun (R40)."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cordwood.journal.action import ACTION_HEADER, Append
from cordwood.journal.bad_record import BadRecord
from cordwood.journal.fold import life_of
from cordwood.journal.header import decode_header, encode_header
from cordwood.pipeline.source.schema import ARROW_HEADERS


@dataclass(frozen=True)
class NamedLives:
    """Rewrites the records of one topic: a name counts only where an Append begins a life, in source and copy alike."""

    topic_id: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self._rewrite(batch)

    def _rewrite(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        headers = batch.column("headers")
        names = headers.flatten().field("key")
        if not pc.any(pc.equal(names, ACTION_HEADER)).as_py():
            return batch
        partitions, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
        lists = headers.to_pylist()
        for pairs, partition, offset in zip(lists, partitions, offsets, strict=True):
            # Only the first header of the name says the action.
            pair = next((pair for pair in pairs or () if pair["key"] == ACTION_HEADER), None)
            if pair is not None:
                pair["value"] = named_header(pair["value"] or b"", life_of(self.topic_id, partition, offset))
        at = batch.schema.get_field_index("headers")
        return batch.set_column(at, batch.schema.field(at), pa.array(lists, ARROW_HEADERS))


def named_header(header: bytes, life: str) -> bytes:
    """The header of an Append with the name of its life; any other one, and one that has a name already, as it is.

    >>> mark = b'{"mark":{"id":"m"}}'
    >>> named_header(mark, "5a74ac36-ef35-5c9c-8fa0-72bc20c3567e") == mark
    True
    >>> header = b'{"append":{"range":{"from":1,"to":1},"payloadType":"json"}}'
    >>> named_header(header, "5a74ac36-ef35-5c9c-8fa0-72bc20c3567e")[-48:].decode()
    '"named":"5a74ac36-ef35-5c9c-8fa0-72bc20c3567e"}}'
    """
    try:
        action = decode_header(header)
    except BadRecord:
        return header
    if not isinstance(action, Append) or action.named is not None:
        return header
    wanted = msgspec.structs.replace(action, named=life)
    if header.endswith(b"}}"):
        # The fields that this version does not know stay, too.
        spliced = b'%b,"named":"%b"}}' % (header[:-2], life.encode())
        try:
            if decode_header(spliced) == wanted:
                return spliced
        except BadRecord:
            pass
    return encode_header(wanted)

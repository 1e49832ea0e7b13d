"""The end of a log after a crash, for a writing open, which seals there, and for a reader without a writer."""

from typing import NamedTuple

from cordwood.errors import Corrupt, NotFound
from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.plog import PlogStore, find_tail, make_durable


class Recovered(NamedTuple):
    chain: Chain
    next_offset: int
    seal_due: bool
    """The last plog was open: it is sealed now, but the metadata does not have that yet."""
    truncated_bytes: int = 0
    """The bytes of a torn write that were truncated."""


def recover(plogs: PlogStore, chain: Chain, published: Durable | None, trimmed_to: int) -> Recovered:
    """Seal the plog that an earlier open left open, at the end of its last whole frame (R1).

    Only the tail is read: from the published end on if that is known, else that one plog. A trimmed plog may be deleted
    before the metadata records it; then the log continues at `trimmed_to` (R7).
    """
    last = chain.last
    if last is None or last.end is not None:
        return Recovered(chain, 0 if last is None else last.next_offset, False)
    known = _known(last, published)
    try:
        file = plogs.open_file(last.id, write=True)
    except NotFound as error:
        if trimmed_to < max(known.next_offset, last.first_offset + 1):
            raise Corrupt(
                f"plog {last.id} is damaged at byte 0: the file is missing; restore it from a copy"
            ) from error
        return Recovered(chain.with_last(last.sealed(0, trimmed_to, known.max_timestamp)), trimmed_to, True)
    try:
        tail = find_tail(
            file,
            last.id,
            start=known.end,
            next_offset=known.next_offset,
            max_timestamp=known.max_timestamp,
            measure_torn=True,
        )
        # R8: after kill -9 whole frames may be only in the page cache. They become part of the log here, so they must
        # be durable before the seal is recorded or the end is published.
        make_durable(file, tail)
    finally:
        file.close()
    # R1: sealed at the truncation point, and never written to again; the stream continues in a new plog.
    sealed = last.sealed(tail.end, tail.next_offset, tail.max_timestamp)
    return Recovered(chain.with_last(sealed), tail.next_offset, True, tail.torn_bytes)


def readable_end(plogs: PlogStore, chain: Chain, published: Durable | None) -> Durable:
    """The end for a reader without a writer: never beyond data that survives a power cut (R8). Repairs nothing."""
    last = chain.last
    if last is None:
        # The log is new, or trimmed to its end: the caller knows where it begins.
        return Durable(None, 0, 0)
    if last.end is not None:
        return Durable(last.id, last.end, last.next_offset, last.max_timestamp)
    known = _known(last, published)
    file = plogs.open_file(last.id)
    try:
        tail = find_tail(file, last.id, start=known.end, next_offset=known.next_offset)
    finally:
        file.close()
    # The timestamp may be that of a frame after the end: it only decides which plogs a search by time looks into.
    return Durable(last.id, tail.synced_end, tail.synced_offset, max(known.max_timestamp, tail.max_timestamp))


def _known(last: Link, published: Durable | None) -> Durable:
    """The end that was published for this plog, else its beginning."""
    if published is not None and published.plog == last.id:
        return published
    return Durable(last.id, 0, last.first_offset)

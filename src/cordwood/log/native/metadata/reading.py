"""Reading the metadata: the chains of all services, out of the latest metadata plog."""

from collections.abc import Sequence

from cordwood.errors import Corrupt, NotFound
from cordwood.log.native.chain.chain import Chain
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import Full, MetadataRecord, apply, decode
from cordwood.log.native.plog import PlogId, PlogStore, find_tail, make_durable, sealed_end
from cordwood.log.native.stream.reading.blocks import stored_batches
from cordwood.records import StoredBatch


def read_all(plogs: PlogStore, latest: PlogId, published: Durable | None) -> tuple[dict[str, Chain], Durable]:
    """The chains of all services, from the latest metadata plog alone, and its end.

    A record truncated here would lose a whole plog: so every source of the synced end counts (R1).
    """
    try:
        file = plogs.open_file(latest, write=True)
    except NotFound as error:
        raise Corrupt(
            f"plog {latest} is gone, and it has the list of all others: restore the folder from a copy"
        ) from error
    try:
        known = published.end if published is not None and published.plog == latest else 0
        tail = find_tail(file, latest, synced_end=max(known, sealed_end(file, latest)))
        # R8, as for any log: a record that counts as durable must not be only in the page cache.
        make_durable(file, tail)
    finally:
        file.close()
    chains: dict[str, Chain] = {}
    read_records(plogs, latest, 0, tail.end, chains)
    return chains, Durable(latest, tail.end, tail.next_offset)


def read_records(plogs: PlogStore, plog: PlogId, start: int, end: int, chains: dict[str, Chain]) -> None:
    """Apply the records between two positions of a metadata plog."""
    for batch in stored_batches(plogs, plog, start, end):
        apply_batch(chains, batch)


def apply_batch(chains: dict[str, Chain], batch: StoredBatch) -> None:
    for key, value in zip(batch.keys, batch.values, strict=True):
        apply_all(chains, (key or b"").decode(), [decode(value or b"")])


def apply_all(chains: dict[str, Chain], service: str, records: Sequence[MetadataRecord]) -> None:
    chain = chains.get(service, Chain())
    for record in records:
        chain = apply(chain, record)
    if isinstance(records[-1], Full) and not chain.links:
        chains.pop(service, None)
    else:
        chains[service] = chain

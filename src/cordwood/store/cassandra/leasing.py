"""The leases of partitions, on which nothing depends (R24): conditional writes with a TTL, by the nodes' clocks.

Only this table has conditional writes of a replicator: no plain write ever touches its rows.
"""

import math
import time
from collections.abc import Sequence

from cordwood.store.rows import Lease

from .session import Call


async def leases(call: Call, topic: str) -> dict[int, Lease]:
    """The leases that have not ended."""
    answer = await call.ask(call.cql.leases, (topic,))
    return {partition: Lease(owner, until) for partition, owner, until in answer.rows if owner is not None}


async def take_leases(call: Call, topic: str, partitions: Sequence[int], owner: str, seconds: float) -> set[int]:
    """Take the leases that are free, and renew the owner's; the partitions that it has then."""
    ttl = max(1, math.ceil(seconds))
    until = time.time_ns() // 1_000_000 + ttl * 1000
    held = await leases(call, topic)
    free = [partition for partition in partitions if partition not in held]
    own = [partition for partition in partitions if partition in held and held[partition].owner == owner]
    if free:
        await call.ask_all(call.cql.take_lease, [(topic, partition, owner, until, ttl) for partition in free])
    if own:
        await call.ask_all(call.cql.renew_lease, [(ttl, owner, until, topic, partition, owner) for partition in own])
    # Not the answers: one that was sent again, because the first answer was lost, is refused by its own first copy.
    now = await leases(call, topic)
    return {partition for partition in partitions if partition in now and now[partition].owner == owner}


async def release_leases(call: Call, topic: str, owner: str) -> None:
    own = [partition for partition, lease in (await leases(call, topic)).items() if lease.owner == owner]
    if own:
        await call.ask_all(call.cql.release_lease, [(topic, partition, owner) for partition in own])

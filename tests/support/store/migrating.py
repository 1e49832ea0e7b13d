"""A process that opens a store on Cassandra, and may kill itself before a step of the migration.

python -m tests.support.store.migrating URL TTL STEP
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from cordwood.store.cassandra import schema
from cordwood.store.cassandra.store import open_cassandra
from cordwood.store.url import CassandraUrl, parse_store_url


def dying(step: schema.Step) -> schema.Step:
    def die(names: schema.Names) -> Sequence[str]:
        os.kill(os.getpid(), signal.SIGKILL)
        return step(names)

    return die


async def main(url: str, ttl: str, step: str) -> None:
    target = parse_store_url(url)
    assert isinstance(target, CassandraUrl)
    if step != "none":
        steps = list(schema.MIGRATIONS)
        steps[int(step)] = dying(steps[int(step)])
        schema.MIGRATIONS = steps  # type: ignore[misc]  # on purpose
    lock = schema.LockTimes(int(ttl), 0.05)
    async with await open_cassandra(target, {}, timeout=60, lock=lock):
        print("open", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

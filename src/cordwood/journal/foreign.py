"""Whether Scala programs use a topic that nothing has bound yet (R23)."""

from cordwood.errors import Conflict
from cordwood.log.interface import Engine, TopicInfo
from cordwood.store import EventStore

from .action import Append, Delete
from .look import told_of


async def check_not_foreign(engine: Engine, info: TopicInfo, store: EventStore, timeout: float) -> None:
    """Raise `Conflict` if the topic has records or pointers of the Scala library: its programs count our losers."""
    if await store.pointers(info.name):
        raise _conflict(info.name, f"{store.url} has its pointers, and nothing has bound it")
    bounds = {
        partition: await engine.log(info.name, partition, timeout=timeout).bounds()
        for partition in range(info.partitions)
    }
    starts = {partition: start for partition, (start, stop) in bounds.items() if start < stop}
    stops = {partition: bounds[partition][1] for partition in starts}
    if not starts:
        return
    undecided = set(starts)
    async with engine.read(
        info.name, starts, stop=stops, follow=False, topic_id=info.id, uncommitted=True, timeout=timeout
    ) as reader:
        async for batch in reader:
            if batch.partition not in undecided:
                continue
            for record in batch:
                told = told_of(record)
                if (isinstance(told, Append) and told.expected is None) or (
                    isinstance(told, Delete) and told.life is None
                ):
                    place = f"{info.name}/{batch.partition}, offset {record.offset}"
                    raise _conflict(info.name, f"the record at {place} is one of theirs")
                if isinstance(told, Append):
                    undecided.discard(batch.partition)
                    break
            if not undecided:
                return


def _conflict(topic: str, why: str) -> Conflict:
    return Conflict(
        f"topic {topic!r} is used by programs of the Scala library: {why}. Open it with single_writer=True;"
        " catch_up(adopt=True) takes it over from their replicator",
        outcome="not_written",
    )

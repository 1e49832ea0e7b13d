"""A coordinator in memory, as good as SQLite with `synchronous=FULL`: each call is atomic, and durable when it returns.

Every call that changes something is two operations of the disk that it is given, "coordinator trim" and "coordinator
trim committed". An error or a power cut at the first leaves nothing, at the second all of it, and the caller cannot
tell which.
"""

from dataclasses import dataclass, field, replace

from crc32c import crc32c

from cordwood.errors import Conflict, Fenced, NotFound, Unavailable, reason_of
from cordwood.log.native.coordinator import LogRow, Stamp, TopicRow
from cordwood.log.topics import TopicConfig
from cordwood.simulation.disk import SimulatedDisk


@dataclass(frozen=True)
class _State:
    changes: int = 0
    epoch: int = 0
    next_id: int = 1
    metadata_plog: str | None = None
    topics: dict[str, TopicRow] = field(default_factory=dict)
    logs: dict[tuple[int, int], LogRow] = field(default_factory=dict)
    plan: str | None = None
    sinks: dict[str, int] = field(default_factory=dict)


class SimulatedCoordinator:
    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._state = _State()

    def after_crash(self, disk: SimulatedDisk) -> "SimulatedCoordinator":
        """The same rows with another disk; this one stays as it is, as the disk does."""
        found = SimulatedCoordinator(disk)
        found._state = self._state
        return found

    def stamp(self) -> Stamp:
        self._disk.check_power()
        state = self._state
        rows = len(state.topics) + len(state.logs) + (state.plan is not None) + len(state.sinks)
        return Stamp(state.changes, rows, crc32c(repr(state).encode()))

    def take_over(self) -> int:
        self._commit("take_over", replace(self._state, epoch=self._state.epoch + 1))
        return self._state.epoch

    def create_topic(self, name: str, config: TopicConfig) -> TopicRow:
        state = self._state
        if name in state.topics:
            raise Conflict(f"topic {name!r} exists already")
        row = TopicRow.new(state.next_id, name, config)
        self._commit("create_topic", replace(state, next_id=state.next_id + 1, topics={**state.topics, name: row}))
        return row

    def alter_topic(self, row: TopicRow) -> None:
        known = self._state.topics.get(row.name)
        if known is None or known.id != row.id:
            raise NotFound(f"no topic has the id {row.id}")
        self._commit("alter_topic", replace(self._state, topics={**self._state.topics, row.name: row}))

    def delete_topic(self, id: int) -> None:
        state = self._state
        topics = {name: row for name, row in state.topics.items() if row.id != id}
        if len(topics) == len(state.topics):
            raise NotFound(f"no topic has the id {id}")
        logs = {key: row for key, row in state.logs.items() if row.topic_id != id}
        self._commit("delete_topic", replace(state, topics=topics, logs=logs))

    def topics(self) -> list[TopicRow]:
        self._disk.check_power()
        return [row for _, row in sorted(self._state.topics.items())]

    def logs(self) -> list[LogRow]:
        self._disk.check_power()
        return list(self._state.logs.values())

    def trim(self, topic_id: int, partition: int, start: int, next_offset: int) -> None:
        if all(row.id != topic_id for row in self._state.topics.values()):
            raise NotFound(f"no topic has the id {topic_id}")
        key = (topic_id, partition)
        before = self._state.logs.get(key)
        if before is not None:
            start, next_offset = max(start, before.start), max(next_offset, before.next_offset)
        row = LogRow(topic_id, partition, start, next_offset)
        self._commit("trim", replace(self._state, logs={**self._state.logs, key: row}))

    def metadata_plog(self) -> str | None:
        self._disk.check_power()
        return self._state.metadata_plog

    def set_metadata_plog(self, epoch: int, expected: str | None, id: str) -> None:
        if (epoch, expected) != (self._state.epoch, self._state.metadata_plog):
            raise Fenced(f"epoch {epoch} no longer owns the folder: another process took it over")
        self._commit("set_metadata_plog", replace(self._state, metadata_plog=id))

    def plan(self) -> str | None:
        self._disk.check_power()
        return self._state.plan

    def decide(self, plan: str) -> None:
        if self._state.plan is not None:
            raise Conflict("the folder has a commit that is not finished yet")
        self._commit("decide", replace(self._state, plan=plan))

    def finish(self, sink: str, batch: int | None) -> None:
        sinks = self._state.sinks
        if batch is not None:
            sinks = {**sinks, sink: max(batch, sinks.get(sink, batch))}
        self._commit("finish", replace(self._state, plan=None, sinks=sinks))

    def sink_batch(self, sink: str) -> int | None:
        self._disk.check_power()
        return self._state.sinks.get(sink)

    def close(self) -> None:
        return

    def _commit(self, call: str, state: _State) -> None:
        self._step(call)
        self._state = replace(state, changes=state.changes + 1)
        self._step(f"{call} committed")

    def _step(self, name: str) -> None:
        try:
            self._disk.step("coordinator", name)
        except OSError as error:
            raise Unavailable(f"the coordinator failed: {error}", reason=reason_of(error)) from error

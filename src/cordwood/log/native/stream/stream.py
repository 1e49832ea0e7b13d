"""The writing side of a log: group commit, and the rollover to the next plog.

Every method may be called from every thread and queues its own work. One job at a time writes, gives space back, drops
plogs or stops (`write_queue`). So only the gate needs a lock: the metadata stream records rollovers on other threads.

Lock: `_gate_lock` orders acks (R8). It is held while the stream publishes its durable end, which may wait for the disk.
`expire` does not take it.
"""

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from itertools import accumulate

from cordwood.errors import Conflict, CordwoodError, NotFound, Outcome, Timeout, Unavailable, reason_of
from cordwood.locks import new_lock
from cordwood.log.calls.completion import deliver, fail
from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.durable import Durable, durable_of
from cordwood.log.native.env.clock import Clock
from cordwood.log.native.env.workers import Done, Workers
from cordwood.log.native.plog import Plog, PlogStore
from cordwood.records import frame_of

from .ack_gate import AckGate, Synced
from .append import Append, batch_of, count_of, expected_of, frames
from .rollover import ChainChange, ChangeState, NoRoom, RolloverPolicy, is_full
from .spare import NewId, PlogMaker
from .write_queue import WriteQueue

_NOTHING_EXPECTED = {None}
_LOGGER = logging.getLogger("cordwood.folder")


class LastPlog(Enum):
    """The state of the chain's last plog."""

    RECORDED = "sealed, and the metadata knows; or there is none"
    SEALED = "sealed, and the next change of the chain records it"
    OPEN = "takes appends"
    RESTING = "takes appends once it is opened again and has its space back"


class Stream:
    """A chain of plogs with one writer.

    `chain` and `durable` are replaced, never changed. A reader takes `durable` first, then `chain`: the chain may then
    be ahead of the durable end, never behind it.
    """

    def __init__(
        self,
        plogs: PlogStore,
        workers: Workers,
        clock: Clock,
        policy: RolloverPolicy,
        *,
        name: str,
        epoch: int,
        new_id: NewId,
        chain: Chain,
        next_offset: int,
        seal_due: bool,
        on_durable: Callable[[Durable], None],
    ) -> None:
        self.name = name
        self.chain = chain
        self.durable = durable_of(chain, next_offset)
        self.last_used = clock.monotonic()
        self.room_wanted_for: str | None = None
        self._queue = WriteQueue(name, workers, self._write)
        # The queue's own methods: one call less for every append.
        self.submit = self._queue.submit
        self.when_room = self._queue.when_room
        self.retry = self._queue.retry
        self.stalled = self._queue.stalled
        self._plogs = plogs
        self._workers = workers
        self._clock = clock
        self._policy = policy
        self._epoch = epoch
        self._on_durable = on_durable
        self._maker = PlogMaker(plogs, workers, new_id)
        self._made = 0
        # The size of the append that the last plog was made for: the next plog expects appends of the same size.
        self._needed = 0
        self._gate = AckGate()
        self._gate_lock = new_lock("metadata.gate" if policy.patient else "stream.gate")
        self._leaving: list[Append] = []
        self._rollovers = 0
        self._last = LastPlog.SEALED if seal_due else LastPlog.RECORDED
        # The last plog, while it is OPEN or RESTING.
        self._active: Plog | None = None
        self._next_offset = next_offset
        self._max_timestamp = -1
        self._synced_offset = next_offset
        self._synced_timestamp = -1
        self._unsynced: list[Append] = []

    @property
    def holds_space(self) -> bool:
        """Whether `give_space_back` has work: open files, or the space of a plog that a crash left unsealed."""
        return self._maker.ahead or self._last in (LastPlog.SEALED, LastPlog.OPEN)

    def expire(self, now: float) -> None:
        """Fail appends whose deadline has passed; those already being written may still become durable."""
        self._queue.expire(now)
        # Without the gate's lock, which is held while the end is published: that may wait for the disk.
        flying = [*self._queue.in_flight, *self._gate.waiting(), *self._leaving]
        late = [append for append in flying if append.deadline <= now]
        if late:
            fail(
                late,
                Timeout(f"{self.name}: the disk has not confirmed the append in time", outcome="unknown"),
            )

    def give_space_back(self) -> None:
        """Hold no file and no unwritten space until the next append."""
        self._queue.run(self._rest)

    def close_files_if_quiet(self) -> None:
        """Close its files on this thread until the next append, unless it is being written."""
        self._queue.run_here_if_idle(self._close_files)

    def drop(self, before: int, done: Done) -> None:
        """Drop every plog of which all records are below `before`; the open one too."""
        self._queue.run(partial(self._drop, before, done))

    def finish(self, error: CordwoodError, done: Done) -> None:
        """Write the queued appends, seal, and stop: later appends raise `error`."""
        self._queue.run_last(partial(self._seal_and_stop, done), error)

    # -- one group ----------------------------------------------------------------------------------------------

    def _write(self, group: list[Append]) -> list[Append]:
        """Write and sync a group; returns the appends that must wait for room (a patient stream only)."""
        self.last_used = self._clock.monotonic()
        kept = self._write_or_keep(group) if self._policy.patient else self._write_or_refuse(group)
        if self._active is not None and self._plogs.crowded and not self._queue.waiting():
            self._active.close()
        return kept

    def _write_or_keep(self, group: list[Append]) -> list[Append]:
        # A sync or a write that failed is never retried on that file: its appends go to a new plog.
        for _ in range(2):
            try:
                return self._put_and_sync(group, "not_written")
            except Exception as error:
                # Also after a defect: later appends build on these, so these keep their place and wait.
                if not isinstance(error, OSError):
                    _LOGGER.exception("%s: a write failed", self.name)
                group = self._give_up_plog(group)
                self.room_wanted_for = str(error)
        return group

    def _write_or_refuse(self, group: list[Append]) -> list[Append]:
        try:
            return self._put_and_sync(group, "not_written")
        except OSError:
            # As above, but once.
            lost = self._give_up_plog(group)
        try:
            # R8: until the seal of the failed plog is recorded, a crash may bring its frames back.
            return self._put_and_sync(lost, "unknown")
        except OSError as error:
            failure = Unavailable(
                f"{self.name}: the write failed, and may be durable or not: {error}",
                outcome="unknown",
                reason=reason_of(error),
            )
            failure.__cause__ = error
            fail(self._give_up_plog(lost), failure)
            return []

    def _put_and_sync(self, group: list[Append], if_refused: Outcome) -> list[Append]:
        left = deque(frames(group))
        kept: list[Append] = []
        self.room_wanted_for = None
        try:
            while left:
                self._put(*left[0], if_refused)
                left.popleft()
        except NoRoom as no_room:
            kept = self._keep_or_refuse([append for frame, _ in left for append in frame], no_room, if_refused)
        if self._unsynced:
            self._sync()
        return kept

    def _keep_or_refuse(self, appends: list[Append], reason: NoRoom, if_refused: Outcome) -> list[Append]:
        if self._policy.patient:
            self.room_wanted_for = str(reason)
            return appends
        if if_refused == "unknown":
            text = f"{self.name}: the write failed, and may be durable or not; then there was {reason}"
        else:
            advice = "free some space" if is_full(reason.__cause__) else "mend that"
            text = f"{self.name}: {reason}; {advice} and append again"
        refused = Unavailable(text, outcome=if_refused, reason=reason_of(reason.__cause__))
        refused.__cause__ = reason.__cause__
        fail(appends, refused)
        return []

    def _put(self, frame: list[Append], size: int, if_refused: Outcome) -> None:
        frame = self._refuse_unexpected(frame, if_refused)
        if not frame:
            return
        active = self._active
        if active is None or active.end + size > active.size:
            active = self._roll_over(size)
        elif not active.open:
            active = self._reopen_active(active, size)
        starts = list(accumulate(map(count_of, frame), initial=self._next_offset))
        encoded = frame_of(
            list(map(batch_of, frame)),
            plog=active.id.random,
            position=active.end,
            first_offset=self._next_offset,
            epoch=self._epoch,
            synced_end=active.synced_end,
            now_ms=self._clock.time_ms(),
        )
        for append, offsets in zip(frame, map(range, starts, starts[1:]), strict=True):
            append.result = offsets
        # If other appends share this group, writing in pieces would only cost their callers the interpreter lock.
        alone = len(self._queue.in_flight) == 1
        active.append(encoded.pieces(streamed=alone), encoded.length, active.end)
        self._next_offset = starts[-1]
        self._max_timestamp = max(self._max_timestamp, encoded.timestamp_max)
        self._unsynced += frame

    def _refuse_unexpected(self, frame: list[Append], if_refused: Outcome) -> list[Append]:
        """Refuse appends that expect another offset than the one they would get; returns the others."""
        if set(map(expected_of, frame)) == _NOTHING_EXPECTED:
            return frame
        accepted, offset = [], self._next_offset
        for append in frame:
            if append.expected is None or append.expected == offset:
                accepted.append(append)
                offset += append.count
            else:
                reason = f"{self.name} is at offset {offset}, not at {append.expected}: read further and decide again"
                fail([append], Conflict(reason, actual=offset, outcome=if_refused))
        return accepted

    def _sync(self) -> None:
        active = self._active
        assert active is not None
        # R9: written is not acked; no ack leaves before this has returned.
        active.sync()
        self._synced_offset = self._next_offset
        self._synced_timestamp = self._max_timestamp
        appends, self._unsynced = self._unsynced, []
        durable = Durable(active.id, active.end, self._next_offset, self._max_timestamp)
        group = Synced(self._rollovers, durable, appends)
        with self._gate_lock:
            self._release(self._gate.hold(group))
        if active.end * 2 >= active.size:
            self._maker.make_ahead(self._policy.plog_bytes(self._made, self._needed))

    def _release(self, groups: list[Synced]) -> None:
        """Publish, then ack; under the gate's lock, so that the order holds."""
        if groups:
            self._leaving = groups[0].appends if len(groups) == 1 else [x for group in groups for x in group.appends]
            self.durable = groups[-1].durable
            self._on_durable(self.durable)
            deliver(self._leaving)
            self._leaving = []

    # -- the last plog ------------------------------------------------------------------------------------------

    def _roll_over(self, size: int) -> Plog:
        """Continue in the next plog at once; its appends are acked when the rollover is recorded."""
        if self._unsynced:
            # First: in the metadata stream, the synced records may extend the list that the next plog begins with.
            self._sync()
        following = self._prepare_following(size)
        self._made += 1
        self._needed = size
        self._retire_active()
        sealed = self._take_sealed()
        link = Link(following.id, self._next_offset)
        self.chain = self.chain.with_link(link) if self._policy.keeps_plogs else Chain([link])
        self._active, self._last = following, LastPlog.OPEN
        self._max_timestamp = self._synced_timestamp = -1
        self._rollovers += 1
        self._record(ChainChange(self._rollovers, sealed, link))
        return following

    def _prepare_following(self, size: int) -> Plog:
        wanted, least = self._policy.plog_bytes(self._made, size), self._policy.plog_bytes_least(size)
        following = self._policy.ready(size, self._next_offset) or self._maker.make(wanted, least)
        try:
            self._next_offset = self._synced_offset = self._policy.prepare(following, self._next_offset)
        except OSError:
            self._maker.give_back(following)
            raise
        except NoRoom as no_room:
            if no_room.keep_plog:
                following.close()
            else:
                self._maker.discard(following)
            raise
        return following

    def _reopen_active(self, active: Plog, size: int) -> Plog:
        """Reopen the plog and reserve its space again; roll over instead if the disk has no room for that."""
        try:
            self._plogs.reopen(active)
            if self._last is LastPlog.RESTING:
                active.reserve()
        except OSError as error:
            active.close()
            if is_full(error):
                return self._roll_over(size)
            raise NoRoom(f"no room to continue in plog {active.id}: {error.strerror or error}") from error
        self._last = LastPlog.OPEN
        return active

    def _give_up_plog(self, group: list[Append]) -> list[Append]:
        """Abandon a plog that failed; returns the appends of the group that are neither synced nor refused."""
        self._abandon_active()
        settled = self._synced_offset
        lost = [x for x in group if x.error is None and (x.result is None or x.result.start >= settled)]
        for append in lost:
            # A metadata plog begins with its list, which takes offsets: after that, the old offset would look like a
            # synced one.
            append.result = None
        return lost

    def _abandon_active(self) -> None:
        """Keep the plog's contents up to its last good sync, and discard the rest: its group failed."""
        self._unsynced = []
        self._next_offset = self._synced_offset
        self._max_timestamp = self._synced_timestamp
        self._retire_active()

    def _retire_active(self) -> None:
        """Seal the last link of the chain at its synced end."""
        if self._active is None:
            return
        assert self.chain.last is not None
        sealed = self.chain.last.sealed(self._active.synced_end, self._synced_offset, self._synced_timestamp)
        self.chain = self.chain.with_last(sealed)
        self._active.close()
        self._active, self._last = None, LastPlog.SEALED

    def _take_sealed(self) -> Link | None:
        """The last link, if it is sealed and not recorded; the caller records it."""
        if self._last is not LastPlog.SEALED:
            return None
        self._last = LastPlog.RECORDED
        return self.chain.last

    def _rest(self) -> None:
        self._maker.drop_spare()
        if self._last is LastPlog.SEALED:
            self._record(ChainChange(self._rollovers, self._take_sealed()))
        elif self._last is LastPlog.OPEN:
            assert self._active is not None
            try:
                if not self._active.open:
                    self._plogs.reopen(self._active)
                self._active.give_back()
            except (NotFound, OSError):
                self._abandon_active()
                return
            self._active.close()
            self._last = LastPlog.RESTING

    def _close_files(self) -> None:
        if self._active is not None:
            self._active.close()
        self._maker.close_spare()

    def _drop(self, before: int, done: Done) -> None:
        if before >= self._synced_offset:
            self._abandon_active()
        sealed = self._take_sealed()
        gone = self.chain.droppable(before)
        self.chain = self.chain.without(link.id for link in gone)
        self._record(ChainChange(self._rollovers, sealed, dropped=gone, done=done))

    def _seal_and_stop(self, done: Done) -> None:
        self._maker.drop_spare()
        self._retire_active()
        self._record(ChainChange(self._rollovers, self._take_sealed(), last=True, done=done))

    # -- a change of the chain ----------------------------------------------------------------------------------

    def _record(self, change: ChainChange) -> None:
        """Record the change; it is completed when the record is durable, on any thread."""
        records = change.records()
        if records:
            self._policy.record(records, partial(self._on_recorded, change))
        else:
            self._complete(change)

    def _on_recorded(self, change: ChainChange) -> None:
        with self._gate_lock:
            self._release(self._gate.open_through(change.rollovers))
        self._complete(change)

    def _complete(self, change: ChainChange) -> None:
        assert change.state is ChangeState.IN_MEMORY, "a change is recorded once"
        change.state = ChangeState.RECORDED
        for link in change.dropped:
            self._plogs.delete(link.id)
        if change.sealed is not None and change.sealed not in change.dropped:
            if change.last:
                self._seal_file(change.sealed, synced=True)
            else:
                self._workers.spawn(partial(self._seal_file, change.sealed))
        change.done()

    def _seal_file(self, link: Link, *, synced: bool = False) -> None:
        """Write the file's own seal, for repair and for servers; the chain already has the end of the plog.

        It is not worth a sync that would delay the log's own syncs, except at a close (R1).
        """
        assert link.end is not None
        try:
            plog = self._plogs.resume(link.id, link.end)
        except (NotFound, OSError):
            # The plog was dropped meanwhile, or no file can be opened now.
            return
        try:
            plog.seal(link.end, next_offset=link.next_offset, max_timestamp=link.max_timestamp)
            if synced:
                plog.sync()
        except OSError:
            # Only space is lost: nothing below the recorded end was touched.
            return
        finally:
            plog.close()

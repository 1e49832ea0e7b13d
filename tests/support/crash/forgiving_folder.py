"""A folder whose caller handles errors, repeats failed calls, and continues."""

from collections.abc import Callable
from contextlib import suppress

from cordwood.errors import CordwoodError, InvalidInput
from cordwood.log.native.folder.writer import FolderWriter
from cordwood.log.topics import TopicConfig
from cordwood.simulation.folder import SimulatedFolder

_TRIES = 3
_ONE_PARTITION = TopicConfig()


class ForgivingFolder(SimulatedFolder):
    """As a program that continues; it does not repeat a failed append. One fault must not fail a call for ever."""

    def open(self) -> FolderWriter:
        self._repeat(super().open)
        return self.engine

    def create_topic(self, name: str, config: TopicConfig = _ONE_PARTITION) -> None:
        create = super().create_topic
        self._repeat(
            lambda: create(name, config),
            unless=lambda: name in {row.name for row in self.engine.topics()},
        )
        self.topics[name].certain = True

    def delete_topic(self, name: str) -> None:
        delete = super().delete_topic
        self._repeat(lambda: delete(name), unless=lambda: name not in {row.name for row in self.engine.topics()})
        self.topics[name].certain = self.topics[name].gone = True

    def trim(self, topic: str, before: int, *, partition: int = 0) -> None:
        trim = super().trim
        try:
            self._repeat(lambda: trim(topic, before, partition=partition))
        except InvalidInput:
            # Appends before it have failed: the log does not reach that far.
            return

    def enforce_retention(self) -> None:
        self._repeat(super().enforce_retention)
        for topic, partition, _ in self.logs():
            # Told by the next call, which would be an append that no history expects to fail.
            with suppress(CordwoodError):
                self.log(topic, partition).raise_failure()

    def close(self) -> None:
        self.recover_breath()
        super().close()

    def recover_breath(self) -> None:
        """Let some time go by, so that whatever is tried again from time to time has been."""
        for _ in range(4):
            self.tick()

    def _repeat(self, call: Callable[[], object], unless: Callable[[], bool] = lambda: False) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                call()
                return
            except (CordwoodError, OSError):
                if unless():
                    return
                if not tries_left:
                    raise
                self.run()

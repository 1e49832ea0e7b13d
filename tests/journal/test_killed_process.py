"""A process that appends and replicates is killed again and again: what it acked is there, in log and store."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import cordwood
from tests.support.crash.programs import program
from tests.support.journal.appending_process import KEYS

pytestmark = pytest.mark.processes


@dataclass
class Model:
    """One journal by its acks. At most one operation is in doubt: each key has one writer, which waits for acks."""

    events: dict[int, str] = field(default_factory=dict)
    seq_nr: int = 0
    doubt: tuple[str, int] | None = None

    def hear(self, said: str, number: int, text: str) -> None:
        if said in ("deleting", "purging"):
            self.doubt = said, number
            return
        self.doubt = None
        if said == "appended":
            self.events |= dict.fromkeys(range(self.seq_nr + 1, number + 1), text)
            self.seq_nr = number
        elif said == "deleted":
            self.delete(number)
        else:
            self.events, self.seq_nr = {}, 0

    def delete(self, through: int) -> None:
        self.events = {seq_nr: text for seq_nr, text in self.events.items() if seq_nr > through}

    def settle(self, found: dict[int, str], pointer: int) -> None:
        """Take what is there: the acks, and the operation in doubt or not."""
        if self.doubt is not None and (pointer < self.seq_nr or found != self.events):
            kind, number = self.doubt
            if kind == "purging":
                self.events, self.seq_nr = {}, 0
            else:
                self.delete(number)
        new = {seq_nr: text for seq_nr, text in found.items() if seq_nr > self.seq_nr}
        assert {seq_nr: text for seq_nr, text in found.items() if seq_nr <= self.seq_nr} == self.events
        assert list(new) == list(range(self.seq_nr + 1, pointer + 1))
        # One append of one to three events, which all have its text.
        assert len(new) <= 3
        assert len(set(new.values())) <= 1
        self.events, self.seq_nr, self.doubt = dict(found), pointer, None


async def test_all_that_was_acked_is_there_after_each_kill(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"file:{tmp_path}/data"
    models = {key: Model() for key in KEYS}
    for kill in range(max(4, request.config.getoption("--kills") // 3)):
        with program("tests.support.journal.appending_process", url, str(kill)) as process:
            process.wait_for("appended")
            await asyncio.sleep(0.05 * (kill % 6))
            process.kill()
        for said, key, number, *text in process.lines:
            models[key].hear(said, int(number), f"{key} {text[0]}" if text else "")
        async with cordwood.connect(url) as cw:
            journal = cw.journal("orders", partitions=2)
            seen = {}
            for key, model in models.items():
                seen[key] = {event.seq_nr: str(event.payload) async for event in journal.read(key)}
                model.settle(seen[key], await journal.pointer(key) or 0)
            # From the store alone: the same.
            await journal.catch_up()
            for key in KEYS:
                assert {event.seq_nr: str(event.payload) async for event in journal.read(key)} == seen[key]

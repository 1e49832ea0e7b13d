"""Verbs that only read: they connect read-only, and work next to the service that writes."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence

from cordwood.cli.options import wants_json
from cordwood.cli.output import Table, flush, json_of, print_json, print_table, shown, size_of, text_of, time_of
from cordwood.cli.output_pipe import while_somebody_reads
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.journal import ExplainedAction, Position, Snapshot, StoredEvent
from cordwood.store import DeadLetter

from .events import EventPrinter, event_printer
from .opening import open_journal, open_read_only_store

_NONE = "-"


async def topics(cw: Client, args: argparse.Namespace) -> None:
    async with open_read_only_store(args) as store:
        found = [each for each in await store.topics() if each.topic.startswith(args.prefix)]
    if wants_json(args):
        for each in found:
            print_json(
                {
                    "topic": each.topic,
                    "partitions": each.partitions,
                    "pointers": {str(partition): offset for partition, offset in sorted(each.pointers.items())},
                    "updated": each.updated,
                }
            )
    elif found:
        rows = [
            (
                each.topic,
                _NONE if each.partitions is None else str(each.partitions),
                pointers_text(each.pointers),
                _NONE if each.updated is None else time_of(each.updated),
            )
            for each in found
        ]
        print_table(("TOPIC", "PARTITIONS", "POINTERS", "UPDATED (UTC)"), rows, numbers=("PARTITIONS",))
    else:
        print("the store has no topics" + (f" that begin with {args.prefix!r}" if args.prefix else ""))


async def read(cw: Client, args: argparse.Namespace) -> None:
    async with (
        open_journal(cw, args) as journal,
        journal.read(args.id, args.start, args.stop, args.until) as reader,
    ):
        await _print_events(reader, args)
        if reader.position is None:
            print(_missing(args), file=sys.stderr)  # standard output has events alone


async def follow(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal, journal.follow(args.id, args.start) as reader:
        printer = event_printer(args.id, wants_json(args))
        await while_somebody_reads(asyncio.ensure_future(_print_each(reader, printer, args.limit)))


async def recover(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal, journal.recover(args.id) as recovered:
        if recovered.position is None:
            _print_missing(args)
            return
        _print_snapshot(recovered.snapshot, args)
        await _print_events(aiter(recovered), args)


async def pointer(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal:
        position = await journal.position(args.id)
    if wants_json(args):
        seq_nr, life = (None, None) if position is None else (position.seq_nr, position.life)
        print_json({"key": args.id, "seq_nr": seq_nr, "life": life})
    elif position is None:
        _print_missing(args)
    else:
        print_table(("SEQ_NR", "LIFE"), [(str(position.seq_nr), position.life or _NONE)], numbers=("SEQ_NR",))


async def ids(cw: Client, args: argparse.Namespace) -> None:
    left = sys.maxsize if args.limit is None else args.limit
    as_json = wants_json(args)
    async with open_journal(cw, args) as journal:
        with _progress() as progress:
            async for id in journal.ids():
                if as_json:
                    print_json({"topic": args.topic, "key": id})
                else:
                    print(shown(id))
                progress.add(1, 0)
                left -= 1
                if not left:
                    return


async def explain(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal:
        if wants_json(args):
            async for action in journal.explain(args.id):
                print_json(_action_entry(action))
            return
        summary = _Summary()
        columns = ("PARTITION", "OFFSET", "ACTION", "EVENTS", "VERDICT", "WINNER", "ID", "REPLICATED")
        table = Table(columns, ("PARTITION", "OFFSET"))
        async for action in journal.explain(args.id):
            summary.add(action)
            table.add([_action_row(action)])
        if not summary.actions:
            print(f"the log has no action of journal {args.id!r} in {args.topic!r}")
            return
        table.flush()
        print(summary.text(await journal.position(args.id) if summary.open else None))


async def dead_letters(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal:
        found = await journal.dead_letters()
    print_letters(found, args.topic, wants_json(args))


def print_letters(found: Sequence[DeadLetter], topic: str, as_json: bool) -> None:
    """The dead letters of a topic, as a table or as JSON."""
    if as_json:
        for letter in found:
            print_json(_letter_entry(letter))
    elif found:
        columns = ("PARTITION", "OFFSET", "KEY", "SKIPPED (UTC)", "REASON")
        print_table(columns, [_letter_row(letter) for letter in found], numbers=("PARTITION", "OFFSET"))
    else:
        print(f"topic {topic!r} has no dead letters")


def pointers_text(pointers: Mapping[int, int]) -> str:
    """The pointers of a topic, by partition.

    >>> pointers_text({1: 7, 0: 12})
    '0:12 1:7'
    """
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(pointers.items())) or _NONE


async def _print_events(reader: AsyncIterator[StoredEvent], args: argparse.Namespace) -> None:
    left = sys.maxsize if args.limit is None else args.limit
    printer = event_printer(args.id, wants_json(args))
    try:
        with _progress() as progress:
            async for event in reader:
                printer.add(event)
                progress.add(1, len(event.raw))
                left -= 1
                if not left:
                    return
    finally:
        printer.flush()


async def _print_each(reader: AsyncIterator[StoredEvent], printer: EventPrinter, limit: int | None) -> None:
    left = sys.maxsize if limit is None else limit
    async for event in reader:
        printer.add(event)
        printer.flush()
        flush()  # a follower's output must appear at once
        left -= 1
        if not left:
            return


def _progress() -> Progress:
    # Events that go to a terminal are the progress themselves.
    return Progress("read", "events", shown=sys.stdout is not None and not sys.stdout.isatty())


def _print_missing(args: argparse.Namespace) -> None:
    if wants_json(args):
        print_json({"key": args.id, "seq_nr": None, "life": None})
    else:
        print(_missing(args))


def _missing(args: argparse.Namespace) -> str:
    return f"there is no journal {args.id!r} in {args.topic!r}"


def _print_snapshot(snapshot: Snapshot | None, args: argparse.Namespace) -> None:
    if wants_json(args):
        entry: dict[str, object] | None = None
        if snapshot is not None:
            when = round(snapshot.timestamp.timestamp() * 1000)
            entry = {"seq_nr": snapshot.seq_nr, "timestamp": when, "payload": json_of(snapshot.payload)}
        print_json({"key": args.id, "snapshot": entry})
    elif snapshot is None:
        print("no snapshot")
    else:
        print(
            f"snapshot at {snapshot.seq_nr}, {size_of(len(snapshot.payload))},"
            f" {time_of(round(snapshot.timestamp.timestamp() * 1000))}: {text_of(snapshot.payload)}"
        )


def _verdict(action: ExplainedAction) -> str:
    if action.kind == "mark":
        return "no change"
    if action.kind == "poison":
        return f"closes the key: {action.reason}"
    if action.counted is None:
        return "unknown: the log is trimmed before it"
    if action.counted:
        return "counted"
    if action.kind != "append":
        return "other life"
    return "repeated" if action.winner is not None and action.winner == action.id else "lost"


def _events_of(action: ExplainedAction) -> str:
    if action.range is None:
        return "all" if action.kind == "purge" else _NONE
    first, last = action.range[0], action.range[-1]
    return str(first) if first == last else f"{first}-{last}"


def _action_row(action: ExplainedAction) -> tuple[str, ...]:
    return (
        str(action.partition),
        str(action.offset),
        action.kind,
        _events_of(action),
        _verdict(action),
        shown(action.winner or _NONE),
        shown(action.id or _NONE),
        "yes" if action.replicated else "no",
    )


def _action_entry(action: ExplainedAction) -> dict[str, object]:
    return {
        "partition": action.partition,
        "offset": action.offset,
        "kind": action.kind,
        "start": None if action.range is None else action.range.start,
        "stop": None if action.range is None else action.range.stop,
        "counted": action.counted,
        "winner": action.winner,
        "life": action.life,
        "replicated": action.replicated,
        "id": action.id,
        "reason": action.reason,
    }


class _Summary:
    """The last line of `explain`: where the journal is after all its actions."""

    def __init__(self) -> None:
        self.actions = 0
        self.open = True
        self._deleted = 0
        self._waiting = 0

    def add(self, action: ExplainedAction) -> None:
        self.actions += 1
        self._waiting += not action.replicated
        if action.kind == "poison":
            self.open = False
        elif action.kind == "purge" and action.counted:
            self._deleted = 0
            self.open = True
        elif action.kind == "delete" and action.counted and action.range is not None:
            self._deleted = max(self._deleted, action.range[-1])

    def text(self, position: Position | None) -> str:
        if not self.open:
            state = "a poison record has closed the key: `cordwood journal dead-letters` shows it"
        elif position is None:
            state = "there is no journal now"
        else:
            deleted = f", deleted through {self._deleted}" if self._deleted else ""
            state = f"the journal is at {position.seq_nr}{deleted}, life {position.life}"
        return f"{state}; {self._waiting} of {self.actions} actions are not replicated"


def _letter_entry(letter: DeadLetter) -> dict[str, object]:
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "through": letter.through,
        "key": letter.id,
        "reason": letter.reason,
        "timestamp": letter.timestamp,
        "skipped": letter.skipped,
        "header": json_of(letter.header),
        "value": json_of(letter.value),
    }


def _letter_row(letter: DeadLetter) -> tuple[str, ...]:
    place = str(letter.offset) if letter.through is None else f"{letter.offset}-{letter.through}"
    skipped = _NONE if letter.skipped is None else time_of(letter.skipped)
    return (str(letter.partition), place, shown(letter.id or _NONE), skipped, shown(letter.reason))

"""`cordwood journal append`: events from arguments, files or standard input."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cordwood.cli.log.lines import LineBatches
from cordwood.cli.options import wants_json
from cordwood.cli.output import print_ack, print_table
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.errors import Conflict, InvalidInput, TooLarge
from cordwood.journal import Appended, Event, Journal
from cordwood.url import Url

from .opening import open_journal
from .store import check_store

KINDS = ("json", "text")

_EVENT_BYTES = 96  # more than an event takes in a record besides its payload and tags


def check_append(url: Url, args: argparse.Namespace) -> None:
    """Make the events of the arguments before the command opens a folder: a typo must not make one."""
    check_store(url, args)
    if args.events and args.binary:
        raise InvalidInput("there are EVENTs and --binary as well: give one of them")
    args.made = [_event(text, args, f"{text!r}") for text in args.events]
    args.made += [Event.binary(Path(path).read_bytes(), args.tag) for path in args.binary]


async def append(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args, create=True) as journal:
        appender = _Appender(journal, args)
        try:
            if args.made:
                await appender.append(args.made)
            else:
                await _append_lines(cw, journal, appender, args)
        finally:
            appender.report()  # also after a failure: the appends before it are durable


async def _append_lines(cw: Client, journal: Journal, appender: "_Appender", args: argparse.Namespace) -> None:
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: give EVENTs or --binary")
    if sys.stdin.isatty():
        print("an event a line; end with Ctrl-D", file=sys.stderr)
    await journal.pointer(args.id)  # makes the topic, whose limit is asked for next
    bytes_max = (await cw.topic(args.topic)).batch_bytes_max
    tags = sum(len(tag.encode()) + 3 for tag in args.tag)
    batches = LineBatches(sys.stdin.fileno(), _EVENT_BYTES + tags, bytes_max)
    # One append has one number to follow and one id: then all lines are one append.
    whole: list[Event] | None = [] if args.expected is not None or args.append_id is not None else None
    seen = 0
    with Progress("appended", "events") as progress:
        while lines := await batches.next():
            events: list[Event] = []
            try:
                for line in lines:
                    seen += 1
                    events.append(_event_of_line(line, args, seen))
            finally:
                # Also after a wrong line: those before it are appended, so that its number says where to continue.
                if whole is None and events:
                    await appender.append_in_parts(events)
            if whole is not None:
                whole += events
            progress.add(len(lines), sum(map(len, lines)))
    if whole:
        await appender.append(whole)


def _event_of_line(line: bytes, args: argparse.Namespace, number: int) -> Event:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"line {number} is not UTF-8: --binary FILE takes bytes") from None
    return _event(text, args, f"line {number}")


def _event(text: str, args: argparse.Namespace, what: str) -> Event:
    try:
        if args.kind == "text":
            return Event.text(text, args.tag)
        return Event.json_bytes(text.encode(errors="surrogateescape"), args.tag)
    except InvalidInput as error:
        hint = "; --kind text takes any text" if args.kind == "json" else ""
        raise InvalidInput(f"{what}: {error}{hint}") from error


class _Appender:
    """Appends events with the options of the command, and counts those that are acked."""

    def __init__(self, journal: Journal, args: argparse.Namespace) -> None:
        self._journal = journal
        self._args = args
        self._json = wants_json(args)
        self._first = self._last = self._events = 0
        self._place: tuple[int, int] | None = None

    async def append_in_parts(self, events: Sequence[Event]) -> None:
        """Append lines: as JSON some take more bytes than they have, and the append may be too large as a whole."""
        try:
            await self.append(events)
        except TooLarge:
            if len(events) == 1:
                raise
            middle = len(events) // 2
            await self.append_in_parts(events[:middle])
            await self.append_in_parts(events[middle:])

    async def append(self, events: Sequence[Event]) -> None:
        args = self._args
        try:
            done = await self._journal.append(
                args.id,
                events,
                expected=args.expected,
                id=args.append_id,
                expire_after=args.expire_after,
                keep_expiry=args.keep_expiry,
            )
        except Conflict as error:
            if error.winner is None:
                raise
            raise Conflict(f"{error}; append {error.winner!r} was first", outcome="not_written") from error
        self._note(done)

    def _note(self, done: Appended) -> None:
        self._first = self._first or done.seq_nrs[0]
        self._last = done.seq_nrs[-1]
        self._events += len(done.seq_nrs)
        self._place = done.partition, done.offset
        if self._json:
            print_ack(
                {
                    "key": self._args.id,
                    "start": done.seq_nrs.start,
                    "stop": done.seq_nrs.stop,
                    "partition": done.partition,
                    "offset": done.offset,
                    "id": done.id,
                }
            )

    def report(self) -> None:
        if self._json:
            return
        if self._place is None:
            print("nothing was appended")
            return
        columns = ("FIRST", "LAST", "EVENTS", "PARTITION", "OFFSET")
        row = (self._first, self._last, self._events, *self._place)
        print_table(columns, [[f"{number:,}" if at == 2 else str(number) for at, number in enumerate(row)]], columns)

"""Verbs that delete events, skip records, or replicate."""

import argparse
import asyncio

from cordwood.cli import FAILED
from cordwood.cli.asking import confirm
from cordwood.cli.connection import removing
from cordwood.cli.options import wants_json
from cordwood.cli.output import print_json, print_table
from cordwood.cli.progress import Progress
from cordwood.client import Client
from cordwood.errors import Corrupt, NotFound
from cordwood.journal import Journal

from .opening import open_journal
from .show import pointers_text
from .store import check_store

_LOOK_SECONDS = 0.2


async def delete(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal:
        await journal.delete(args.id, through=args.through)
        seq_nr = await journal.pointer(args.id)
    if wants_json(args):
        through = None if seq_nr is None else min(args.through, seq_nr)
        print_json({"key": args.id, "deleted_through": through, "seq_nr": seq_nr})
    elif seq_nr is None:
        print(f"there is no journal {args.id!r} in {args.topic!r}: nothing was deleted")
    else:
        print(f"journal {args.id!r} is deleted through {min(args.through, seq_nr)}; its last event is {seq_nr}")


def purge(args: argparse.Namespace) -> int:
    # Asked before the command opens anything: a user who thinks it over holds no lock.
    why = f"purging journal {args.id!r} deletes its events and snapshots for good"
    if not args.yes and not confirm(f"purge journal {args.id!r} of {args.topic!r}?", why):
        print("nothing was purged")
        return FAILED
    return removing(_purge_now, check_store)(args)


async def _purge_now(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal:
        existed = await _exists(journal, args.id)
        await journal.purge(args.id, wait=args.complete)
    if wants_json(args):
        print_json({"key": args.id, "purged": existed})
    elif existed:
        print(f"purged {args.id!r}" + (": the store holds nothing of it" if args.complete else ""))
    else:
        print(f"there is no journal {args.id!r} in {args.topic!r}: nothing was purged")


async def _exists(journal: Journal, id: str) -> bool:
    try:
        return await journal.pointer(id) is not None
    except Corrupt:
        return True  # closed, and a purge opens it


async def skip(cw: Client, args: argparse.Namespace) -> None:
    async with open_journal(cw, args) as journal:
        try:
            letter = await journal.skip(partition=args.partition, offset=args.offset)
        except NotFound as error:
            raise NotFound(
                f"{args.topic}/{args.partition} has no dead letter at offset {args.offset}:"
                f" `cordwood journal dead-letters {args.topic}` lists them"
            ) from error
    if wants_json(args):
        print_json({"partition": letter.partition, "offset": letter.offset, "key": letter.id})
    elif letter.id is None:
        print(f"skipped {args.topic}/{letter.partition}, offset {letter.offset}: it closed no key")
    else:
        print(f"skipped {args.topic}/{letter.partition}, offset {letter.offset}, of journal {letter.id!r}")


async def catch_up(cw: Client, args: argparse.Namespace) -> None:
    # Without the background replicator, which would do the same work a second time.
    async with open_journal(cw, args, replicate=False) as journal:
        watching = asyncio.ensure_future(_show_progress(journal))
        try:
            await journal.catch_up(accept_loss=args.accept_loss)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        stats = journal.stats()
    if wants_json(args):
        print_json(
            {
                "topic": args.topic,
                "records": stats.replicated_records,
                "events": stats.replicated_events,
                "dead_letters": stats.dead_letters,
                "pointers": {str(partition): offset for partition, offset in sorted(stats.pointers.items())},
            }
        )
        return
    columns = ("TOPIC", "RECORDS", "EVENTS", "DEAD LETTERS", "POINTERS")
    row = (
        args.topic,
        f"{stats.replicated_records:,}",
        f"{stats.replicated_events:,}",
        f"{stats.dead_letters:,}",
        pointers_text(stats.pointers),
    )
    print_table(columns, [row], numbers=columns[1:4])


async def _show_progress(journal: Journal) -> None:
    """Count the records that the pointers have passed."""
    with Progress("replicated") as progress:
        before: dict[int, int] = {}
        while True:
            now = journal.stats().pointers
            # The first pointer of a partition is where it began.
            progress.add(sum(now[partition] - pointer for partition, pointer in before.items()), 0)
            before = now
            await asyncio.sleep(_LOOK_SECONDS)

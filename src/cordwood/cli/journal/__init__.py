"""`cordwood journal`: the events of entities, what became of them, and their replication."""

import argparse

from cordwood.cli import Commands
from cordwood.cli.checked import append_id, journal_id, partitions, seq_nr, topic_name
from cordwood.cli.connection import Command, Run, making, reading, removing
from cordwood.cli.options import IntermixedParser, add_common, count, duration, moment, offset

from .append import KINDS, append, check_append
from .change import catch_up, delete, purge, skip
from .show import dead_letters, explain, follow, ids, pointer, read, recover, topics
from .store import add_store, check_store

_IF_MISSING = "`cordwood journal append` makes it"


def add_to(commands: Commands) -> None:
    journal = commands.add_parser(
        "journal",
        help="events of entities: append, read, follow, recover, delete, purge, explain, catch-up",
        description="Append and read the events of entities, and look after their replication to a store.",
    )
    verbs = journal.add_subparsers(metavar="VERB", title="verbs", required=True, parser_class=IntermixedParser)
    _add_topics(verbs)
    _add_append(verbs)
    _add_reading(verbs)
    _add_changing(verbs)
    _add_looking(verbs)
    _add_operating(verbs)


def _add_topics(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "topics",
        help="list the topics of a store",
        description="List the topics that a store has, and how far each partition is replicated.",
    )
    add_common(parser)
    add_store(parser)
    parser.add_argument("--prefix", default="", metavar="TEXT", help="only topics whose name begins like this")
    parser.set_defaults(run=_reading(topics))


def _add_append(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "append",
        help="append events to a journal",
        description="Append each EVENT, all of them or none; without any, each line of standard input, in appends as"
        " they come, or in a single one with --expected or --id. A topic that is missing is made.",
    )
    _add_key(parser)
    parser.add_argument("events", nargs="*", default=[], metavar="EVENT", help="JSON (after -- if it begins with -)")
    parser.add_argument("--kind", choices=KINDS, default="json", help="what EVENTs and lines are (default: json)")
    parser.add_argument(
        "--binary", action="append", default=[], metavar="FILE", help="a file whose bytes are an event; may be repeated"
    )
    parser.add_argument(
        "--expected", type=offset, metavar="N", help="the number of the last event; if it is another, append nothing"
    )
    parser.add_argument(
        "--id",
        dest="append_id",
        type=append_id,
        metavar="TEXT",
        help="the name of this append: with --expected, a repetition appends nothing, and shows the first result;"
        " alone, it covers the retries of this call, and a second call appends again",
    )
    parser.add_argument(
        "--tag", action="append", default=[], metavar="TEXT", help="a tag of each event; may be repeated"
    )
    parser.add_argument(
        "--expire-after", type=duration, metavar="SPAN", help="how long after this append the journal may be purged"
    )
    parser.add_argument("--keep-expiry", action="store_true", help="leave the expiry as it is; else it is cleared")
    parser.add_argument(
        "--partitions", type=partitions, metavar="N", help="the partitions of a topic that is made (default: 4)"
    )
    parser.set_defaults(run=making(append, check_append))


def _add_reading(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "read", help="show the events of a journal", description="Show the events of a journal, without deleted ones."
    )
    _add_key(parser)
    parser.add_argument("--start", type=seq_nr, default=1, metavar="N", help="the first number (default: 1)")
    parser.add_argument("--stop", type=seq_nr, metavar="N", help="one past the last number (default: the end)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="end with the last event at or before this time")
    _add_limit(parser)
    parser.set_defaults(run=_reading(read))
    parser = verbs.add_parser(
        "follow",
        help="show the events of a journal, and wait for more",
        description="Show the events of a journal, and then every new one. It ends when the journal is purged.",
    )
    _add_key(parser)
    parser.add_argument("--start", type=seq_nr, default=1, metavar="N", help="the first number (default: 1)")
    _add_limit(parser)
    parser.set_defaults(run=_reading(follow))
    parser = verbs.add_parser(
        "recover",
        help="show the snapshot and the events after it",
        description="Show the newest snapshot of a journal and the events after it, as of one moment.",
    )
    _add_key(parser)
    _add_limit(parser)
    parser.set_defaults(run=_reading(recover))
    parser = verbs.add_parser(
        "pointer",
        help="show the number of the last event",
        description="Show the number of a journal's last event, also of a deleted one, and the life of the journal.",
    )
    _add_key(parser)
    parser.set_defaults(run=_reading(pointer))


def _add_changing(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "delete",
        help="delete the first events of a journal",
        description="Delete events of a journal up to a number. The numbers of later events continue.",
    )
    _add_key(parser)
    parser.add_argument("--through", type=seq_nr, required=True, metavar="N", help="the last number that is deleted")
    parser.set_defaults(run=removing(delete, check_store))
    parser = verbs.add_parser(
        "purge",
        help="delete a journal, for good",
        description="Delete all events and snapshots of a journal, for good. The next append begins at 1.",
    )
    _add_key(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where nobody can answer")
    parser.add_argument("--complete", action="store_true", help="wait until the store holds nothing of the journal")
    parser.set_defaults(run=purge)


def _add_looking(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "ids", help="list the journals of a topic", description="List the ids of all journals, in no order."
    )
    _add_topic(parser)
    _add_limit(parser)
    parser.set_defaults(run=_reading(ids))
    parser = verbs.add_parser(
        "explain",
        help="show what became of each action of a journal",
        description="Show every action of a journal that the log still has: whether it counted, which append had taken"
        " the numbers of one that lost, and whether the store has it.",
    )
    _add_key(parser)
    parser.set_defaults(run=_reading(explain))


def _add_operating(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "dead-letters",
        help="show poison records and lost ranges",
        description="Show the records that could not be decoded, the journals that they close, and ranges of records"
        " that were lost.",
    )
    _add_topic(parser)
    parser.set_defaults(run=_reading(dead_letters))
    parser = verbs.add_parser(
        "skip",
        help="leave a poison record out",
        description="Skip a dead letter: its journal is open again, without the events of that record.",
    )
    _add_topic(parser)
    parser.add_argument("--partition", type=offset, required=True, metavar="N", help="the partition of the record")
    parser.add_argument("--offset", type=offset, required=True, metavar="N", help="the offset of the record")
    parser.set_defaults(run=removing(skip, check_store))
    parser = verbs.add_parser(
        "catch-up", help="replicate to the end of the log", description="Replicate a topic to the end of its log, now."
    )
    _add_topic(parser)
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="continue after records that were trimmed before they were replicated; dead letters name them",
    )
    parser.set_defaults(run=removing(catch_up, check_store))


def _reading(command: Command) -> Run:
    return reading(command, check_store, _IF_MISSING)


def _add_topic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", type=topic_name, metavar="TOPIC", help="the topic of the journals")
    add_common(parser)
    add_store(parser)


def _add_key(parser: argparse.ArgumentParser) -> None:
    _add_topic(parser)
    parser.add_argument("id", type=journal_id, metavar="ID", help="the id of the journal")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=count, metavar="N", help="stop after N of them")

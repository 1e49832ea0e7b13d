"""The actions of a journal's records, as their headers say them. Whether an action counts is the fold's decision."""

from typing import TypeAlias

import msgspec


class Append(msgspec.Struct, frozen=True):
    """Events `first` to `last`, in one record.

    `id` and `expected` are ours (R20): the Scala library's appends have neither. With them the append counts only after
    the event `expected`, and with `life` only in that life.
    """

    first: int
    last: int
    payload_type: str = "json"
    """`json` or `binary`: how the value is encoded."""
    origin: str | None = None
    version: str | None = None
    metadata: bytes | None = None
    """The `data` of the header metadata, as JSON; Scala programs write it."""
    id: str | None = None
    expected: int | None = None
    life: str | None = None
    """The life that the append was numbered in; None: any, or the journal has none yet."""
    named: str | None = None
    """The name of the life that a copied append begins (R40)."""
    keep_expiry: bool = False
    after: str | None = None
    """The id of the append that must be the journal's last one: the writer did not know its verdict yet."""


class Mark(msgspec.Struct, frozen=True):
    """Marks a place in the log; changes nothing."""

    id: str
    origin: str | None = None
    version: str | None = None


class Delete(msgspec.Struct, frozen=True):
    """Deletes the events up to `to`, inclusive; with `life` only in that life (R40)."""

    to: int
    origin: str | None = None
    version: str | None = None
    life: str | None = None


class Purge(msgspec.Struct, frozen=True):
    """Deletes the whole journal; with `life` only in that life, with `seq_nr` only at that number (R22)."""

    origin: str | None = None
    version: str | None = None
    life: str | None = None
    seq_nr: int | None = None


Action: TypeAlias = Append | Mark | Delete | Purge

ACTION_HEADER = "journal.action"
"""The header of a record that holds its action."""

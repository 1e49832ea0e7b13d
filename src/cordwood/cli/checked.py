"""Checks of arguments before the library opens anything and checks them again: a typo must not create a folder."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from cordwood.errors import InvalidInput
from cordwood.journal.arguments import checked_number, checked_text
from cordwood.journal.key import encode_id
from cordwood.log.topics import checked_partitions, checked_retention, checked_retention_bytes, checked_topic_name
from cordwood.wal.names import checked_id, checked_wal_name

from .options import byte_count, count, duration, offset

T = TypeVar("T")


def _checked(parse: Callable[[str], T], check: Callable[[T], object]) -> Callable[[str], T]:
    """An argument as `parse` reads it, if `check` accepts it."""

    def read(text: str) -> T:
        value = parse(text)
        try:
            check(value)
        except InvalidInput as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return value

    return read


def _or_none(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """As `parse`; the word `none` is None."""

    def read(text: str) -> T | None:
        return None if text == "none" else parse(text)

    return read


topic_name = _checked(str, checked_topic_name)
partitions = _checked(count, checked_partitions)
retention = _checked(duration, checked_retention)
retention_bytes = _checked(byte_count, checked_retention_bytes)
retention_or_none = _or_none(retention)
retention_bytes_or_none = _or_none(retention_bytes)
journal_id = _checked(str, encode_id)
append_id = _checked(str, partial(checked_text, "--id"))
seq_nr = _checked(count, partial(checked_number, "a number"))
wal_name = _checked(str, checked_wal_name)
region_id = _checked(offset, partial(checked_id, "region"))
table_id = _checked(offset, partial(checked_id, "table"))

"""Opening the journal or the store that a verb names."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cordwood.cli.connection import missing_topic
from cordwood.cli.options import timeout_of
from cordwood.client import Client
from cordwood.errors import NotFound
from cordwood.journal import Journal
from cordwood.store import Binding, EventStore
from cordwood.store.opening import open_store

from .store import store_config_of, store_of


@asynccontextmanager
async def open_journal(
    cw: Client, args: argparse.Namespace, *, create: bool = False, replicate: bool | None = None
) -> AsyncIterator[Journal]:
    """The journal of the topic, opened as it is bound to its store: the user need not know that."""
    if not create:
        await _check_exists(cw, args.topic)
    bound = await _binding(args)
    store, config = store_of(args), store_config_of(args)
    if bound is None:
        partitions: int = getattr(args, "partitions", None) or 4
        journal = cw.journal(
            args.topic, store=store, store_config=config, partitions=partitions, replicate=replicate, keep=None
        )
    else:
        journal = cw.journal(
            args.topic,
            store=store,
            store_config=config,
            partitions=bound.partitions,
            single_writer=bound.single_writer,
            segment_size=bound.segment_size,
            replicate=replicate,
            keep=None,  # only the program that owns the topic knows how long its log is to be kept
        )
    async with journal:
        yield journal


@asynccontextmanager
async def open_read_only_store(args: argparse.Namespace) -> AsyncIterator[EventStore]:
    async with await open_store(
        store_of(args), config=store_config_of(args), read_only=True, timeout=timeout_of(args)
    ) as store:
        yield store


async def _binding(args: argparse.Namespace) -> Binding | None:
    try:
        async with open_read_only_store(args) as store:
            return await store.binding(args.topic)
    except NotFound:
        return None  # the journal makes the store, or its error names it


async def _check_exists(cw: Client, topic: str) -> None:
    """A journal that may write makes its topic; a typo must not."""
    try:
        await cw.topic(topic)
    except NotFound as error:
        raise missing_topic(topic) from error

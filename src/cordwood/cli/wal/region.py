"""Opening the region that a verb names."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cordwood.client import Client
from cordwood.errors import Corrupt, NotFound
from cordwood.wal import Region
from cordwood.wal.layout import LAYOUTS


@asynccontextmanager
async def open_region(cw: Client, args: argparse.Namespace, *, create: bool = False) -> AsyncIterator[Region]:
    try:
        async with await _region(cw, args, create) as region:
            yield region
    except Corrupt as error:
        # Sound records of another format look damaged.
        raise Corrupt(f"{error} (read with --codec {args.codec})") from error


async def record_bytes_max(cw: Client, args: argparse.Namespace) -> int:
    """The largest record that the region's data log takes."""
    place = LAYOUTS[args.layout].place(args.name, args.region)
    return (await cw.topic(place.data.topic)).batch_bytes_max


async def _region(cw: Client, args: argparse.Namespace, create: bool) -> Region:
    # No background cleaning: the command ends before it would start.
    wal = cw.wal(args.name, codec=args.codec, layout=args.layout, clean_every=None)
    try:
        return await wal.region(args.region, create=create)
    except NotFound:
        raise NotFound(
            f"write-ahead log {args.name!r} has no region {args.region}: `cordwood wal regions {args.name}` lists them"
        ) from None

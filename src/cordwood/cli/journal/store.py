"""Which store a command uses: --store, else $CORDWOOD_STORE, else that of the folder."""

import argparse
import os

from cordwood.cli.options import settings_in, url_of
from cordwood.errors import InvalidInput
from cordwood.journal.opening import default_store
from cordwood.store.url import parse_store_url
from cordwood.url import Url, parse_url

STORE_VARIABLE = "CORDWOOD_STORE"


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"the event store, sqlite:PATH (default: ${STORE_VARIABLE}, else store.db in the folder)",
    )
    parser.add_argument(
        "--store-config",
        metavar="FILE",
        help="settings of the store, a line NAME=VALUE each: the place for a password",
    )


def check_store(url: Url, args: argparse.Namespace) -> None:
    """Raise `InvalidInput` if there is no store, or its url is wrong, before anything is opened."""
    parse_store_url(_store_at(url, args))


def store_of(args: argparse.Namespace) -> str:
    return _store_at(parse_url(url_of(args)), args)


def store_config_of(args: argparse.Namespace) -> dict[str, str]:
    return {} if args.store_config is None else settings_in(args.store_config)


def _store_at(url: Url, args: argparse.Namespace) -> str:
    # An empty variable means "not set", as in most programs.
    store: str | None = args.store or os.environ.get(STORE_VARIABLE) or default_store(url)
    if store is None:
        raise InvalidInput(
            f"a journal on {url} needs a store, and only a folder has one: say --store sqlite:PATH or set"
            f" ${STORE_VARIABLE}"
        )
    return store

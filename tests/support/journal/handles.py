"""Journals on any engine, without a connection: several handles on one topic, and faulty engines below them."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from cordwood.journal import Journal
from cordwood.journal.journal import JournalConfig
from cordwood.log import Engine

DEFAULTS: Mapping[str, Any] = {
    "store_config": {},
    "partitions": 1,
    "fence": "watermark",
    "replicate": False,
    "single_writer": False,
    "keep": timedelta(days=1),
    "segment_size": 10_000,
    "head_bytes_max": 64 << 20,
    "agree_seconds": 0.0,
}


def handle(engine: Engine, store: Path, topic: str = "orders", timeout: float = 30, **settings: Any) -> Journal:
    """A journal of its own on this engine and this SQLite file."""
    config = JournalConfig(store=f"sqlite:{store}", **{**DEFAULTS, **settings})
    return Journal(
        engine,
        topic,
        config,
        timeout=timeout,
        read_only=False,
        check=lambda: None,
        on_open=lambda journal: None,
    )

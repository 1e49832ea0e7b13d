"""How the suite connects to logs in memory."""

from typing import ClassVar

import pytest

from cordwood import sync
from cordwood.client import Client
from cordwood.simulation.memory import MemoryEngine, MemoryStore
from cordwood.testing.under_test import UnderTest
from cordwood.url import parse_url


class UnderMemory(UnderTest):
    engine_class: ClassVar[type[MemoryEngine]] = MemoryEngine

    @pytest.fixture
    def url(self) -> str:
        self.store = MemoryStore()
        return "file:/in-memory"

    def connect(self, url: str) -> Client:
        return Client(self.engine_class(self.store), parse_url(url), timeout=30, read_only=False)

    def connect_blocking(self, url: str) -> sync.Client:
        return sync.Client(self.connect(url))

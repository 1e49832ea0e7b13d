import pytest

from cordwood import sync
from cordwood.client import Client
from cordwood.testing import LogConformance
from cordwood.url import parse_url
from tests.conformance.memory import MemoryEngine, Store


class TestMemory(LogConformance):
    @pytest.fixture
    def url(self) -> str:
        self.store = Store()
        return "file:/in-memory"

    def connect(self, url: str) -> Client:
        return Client(MemoryEngine(self.store), parse_url(url), timeout=30, read_only=False)

    def connect_blocking(self, url: str) -> sync.Client:
        return sync.Client(self.connect(url))

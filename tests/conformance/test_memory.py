from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

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

    def connect(self, url: str) -> AbstractAsyncContextManager[Client]:
        return self.make_client(url)

    def connect_blocking(self, url: str) -> sync.Client:
        return sync.Client(self.client(url))

    def client(self, url: str) -> Client:
        return Client(MemoryEngine(self.store), parse_url(url), timeout=30, read_only=False)

    @asynccontextmanager
    async def make_client(self, url: str) -> AsyncIterator[Client]:
        client = self.client(url)
        try:
            yield client
        finally:
            await client.close()

from pathlib import Path

import pytest

from cordwood.testing import LogConformance


class TestEmbedded(LogConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"file:{tmp_path}/data"

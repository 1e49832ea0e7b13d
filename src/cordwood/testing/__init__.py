"""What every engine of logs must do, as tests: subclass `LogConformance` in a test file, and pytest runs them.

`under_test` has what an engine tells the suite; each other module is one theme, and `conformance` puts them
together. pytest and pytest-asyncio (auto mode) are needed, and imported, by this package alone. May import
`sync`, `client` and below.

```python
class TestMyEngine(LogConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"file:{tmp_path}"
```
"""

try:
    import pytest
    import pytest_asyncio  # noqa: F401  # not used here, but without it no test of the suite runs
except ImportError as error:
    raise ImportError("cordwood.testing needs pytest: pip install pytest pytest-asyncio") from error

# Before the modules are imported: else a failed `assert` in them says nothing but its line.
_THEMES = (
    "appending",
    "concurrency",
    "connections",
    "following",
    "outcomes",
    "partitions",
    "positions",
    "reading",
    "topics",
    "trimming",
    "twin",
)
pytest.register_assert_rewrite(*(f"cordwood.testing.{theme}" for theme in ("under_test", *_THEMES)))

from cordwood.testing.conformance import LogConformance  # noqa: E402
from cordwood.testing.under_test import promised  # noqa: E402

__all__ = ["LogConformance", "promised"]

"""The conformance tests of every engine of logs: subclass `LogConformance` in a test file, and pytest runs them.

`under_test` has the properties that an engine declares; each other module is one theme, and `conformance` combines
them. The suite needs pytest and pytest-asyncio (auto mode): `pip install 'cordwood[testing]'`. The servers in
`cordwood.testing.kafka` do not. Imports `sync`, `client` and below.

```python
class TestMyEngine(LogConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"file:{tmp_path}"
```
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cordwood.testing.conformance import LogConformance as LogConformance
    from cordwood.testing.under_test import promised as promised

__all__ = ["LogConformance", "promised"]

_MODULES = {"LogConformance": "conformance", "promised": "under_test"}
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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'cordwood.testing' has no attribute {name!r}")
    try:
        import pytest
        import pytest_asyncio  # noqa: F401  # not used here, but without it no test of the suite runs
    except ImportError as error:
        raise ImportError("the conformance suite needs pytest: pip install 'cordwood[testing]'") from error
    from importlib import import_module

    # Before the modules are imported: else a failed `assert` in them says nothing but its line.
    pytest.register_assert_rewrite(*(f"cordwood.testing.{theme}" for theme in ("under_test", *_THEMES)))
    value = getattr(import_module(f"cordwood.testing.{_MODULES[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value

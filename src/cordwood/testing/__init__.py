"""The conformance tests of every engine of logs and of every event store: subclass one, and pytest runs them.

`under_test` has the properties that an engine declares; each other module is one theme, and `conformance` combines
them. `store` has the same for event stores. The suites need pytest and pytest-asyncio (auto mode): `pip install
'cordwood[testing]'`. The servers in `cordwood.testing.kafka` do not. Imports `sync`, `client` and below.

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
    from cordwood.testing.promises import promised as promised
    from cordwood.testing.store.conformance import EventStoreConformance as EventStoreConformance

__all__ = ["EventStoreConformance", "LogConformance", "promised"]

_MODULES = {
    "EventStoreConformance": "store.conformance",
    "LogConformance": "conformance",
    "promised": "promises",
}
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
_STORE_THEMES = (
    "bindings",
    "closing",
    "concurrency",
    "dead_letters",
    "guard",
    "journals",
    "netting",
    "pages",
    "purging",
    "read_only",
    "scans",
    "snapshots",
    "topics",
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
    pytest.register_assert_rewrite(
        *(f"cordwood.testing.{theme}" for theme in ("under_test", *_THEMES)),
        *(f"cordwood.testing.store.{theme}" for theme in ("under_test", *_STORE_THEMES)),
    )
    value = getattr(import_module(f"cordwood.testing.{_MODULES[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value

"""The whole suite for event stores."""

from cordwood.testing.store.bindings import Bindings
from cordwood.testing.store.closing import Closing
from cordwood.testing.store.concurrency import Concurrency
from cordwood.testing.store.dead_letters import DeadLetters
from cordwood.testing.store.guard import Guard
from cordwood.testing.store.journals import Journals
from cordwood.testing.store.leases import Leases
from cordwood.testing.store.netting import Netting
from cordwood.testing.store.pages import Pages
from cordwood.testing.store.purging import Purging
from cordwood.testing.store.read_only import ReadOnly
from cordwood.testing.store.scans import Scans
from cordwood.testing.store.snapshots import Snapshots
from cordwood.testing.store.topics import Topics


class EventStoreConformance(
    Bindings,
    Closing,
    Concurrency,
    DeadLetters,
    Guard,
    Journals,
    Leases,
    Netting,
    Pages,
    Purging,
    ReadOnly,
    Scans,
    Snapshots,
    Topics,
):
    """Every test of the suite. A subclass defines the fixture `url`, and declares the promises that it does not keep.

    ```python
    class TestMyStore(EventStoreConformance):
        @pytest.fixture
        def url(self, tmp_path: Path) -> str:
            return f"sqlite:{tmp_path}/store.db"
    ```
    """

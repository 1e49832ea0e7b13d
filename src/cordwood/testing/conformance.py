"""The whole suite."""

from cordwood.testing.appending import Appending
from cordwood.testing.concurrency import Concurrency
from cordwood.testing.connections import Connections
from cordwood.testing.following import Following
from cordwood.testing.outcomes import Outcomes
from cordwood.testing.partitions import Partitions
from cordwood.testing.positions import Positions
from cordwood.testing.reading import Reading
from cordwood.testing.several import Several
from cordwood.testing.topics import Topics
from cordwood.testing.trimming import Trimming
from cordwood.testing.twin import Twin


class LogConformance(
    Appending,
    Concurrency,
    Connections,
    Following,
    Outcomes,
    Partitions,
    Positions,
    Reading,
    Several,
    Topics,
    Trimming,
    Twin,
):
    """Every test of the suite. A subclass defines the fixture `url`, and declares the promises that it does not keep.

    ```python
    class TestMyEngine(LogConformance):
        reopens = False  # it lives in memory

        @pytest.fixture
        def url(self) -> str:
            return "..."
    ```
    """

"""Real Kafka servers for tests, and pytest fixtures of them: `pytest_plugins = ["cordwood.testing.kafka.fixtures"]`.

They need Java 17, Maven (once, to fetch Kafka's jars into the user's cache) and the extra `kafka`. `java` has the
command line and `settings` the properties of a server, `broker` and `cluster` run it, `probe` asks it.
May import `testing.servers` and below.

```python
with Broker() as kafka, cordwood.sync.connect(kafka.url) as cw:
    cw.create_topic("events")
```
"""

from .broker import Broker
from .cluster import Cluster
from .prepare import prepare
from .spark import spark_jars

__all__ = ["Broker", "Cluster", "prepare", "spark_jars"]

"""Real Cassandra nodes for tests, and pytest fixtures of them.

`pytest_plugins = ["cordwood.testing.cassandra.fixtures"]` in a conftest.py makes them known.

They need Java 17 and Maven (once, to fetch Cassandra's jars into the user's cache). `java` has the command line and
`settings` the configuration of a node, `node` and `cluster` run it, `probe` asks it. May import `testing.servers` and
below.

```python
with Node() as cassandra:
    store = await open_store(f"cassandra://{cassandra.address}/journal")
```
"""

from .cluster import Cluster
from .node import Node
from .prepare import prepare

__all__ = ["Cluster", "Node", "prepare"]

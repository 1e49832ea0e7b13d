"""The blocking twin: the same objects as those of `cordwood.connect`, for programs without an event loop.

`portal` is the one loop thread of a process, and carries calls to it. `callbacks` runs functions of the application on
other threads. `client`, `log`, `wal`, `journal` and `reader` are the facade, written by hand so that editors and type
checkers know every signature. A test keeps it equal to the async one. May import `client` and below.

```python
with cordwood.sync.connect("file:./data") as cw:
    cw.create_topic("events", exist_ok=True)
    cw.log("events").append(Batch.of([b"hello"]))
```
"""

from cordwood.sync.client import Client, connect
from cordwood.sync.journal import EventReader, FollowReader, Journal, Recovered
from cordwood.sync.log import Log
from cordwood.sync.reader import PartitionsReader, Reader
from cordwood.sync.wal import Region, RegionReader, Wal

__all__ = [
    "Client",
    "EventReader",
    "FollowReader",
    "Journal",
    "Log",
    "PartitionsReader",
    "Reader",
    "Recovered",
    "Region",
    "RegionReader",
    "Wal",
    "connect",
]

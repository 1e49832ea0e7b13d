"""Whether a log still belongs to the topic that a reader began with. Blocking."""

from cordwood.errors import NotFound
from cordwood.log.arguments import created_again

from .offsets import Offsets


class SameTopic:
    """The topic that a reader reads: the one that the caller names, else the one that is there at the first check."""

    def __init__(self, offsets: Offsets, topic: str, id: str | None, timeout: float) -> None:
        self.named = id is not None
        self._offsets = offsets
        self._topic = topic
        self._id = id
        self._timeout = timeout

    def check(self, what: str) -> bool:
        """Called after a read: ids are never reused, so all its records are of the topic that has the id now.

        False if the broker that was asked does not know the topic. Raises for a topic that was deleted and created
        again: `Conflict` if the caller names the topic, else `NotFound`.
        """
        try:
            found = self._offsets.topic_id(self._topic, self._timeout)
        except NotFound:
            return False  # this broker may not know it yet; a deleted topic gives no records anyway
        if self._id is not None and self._id != found:
            if self.named:
                raise created_again(what, self._id, found)
            raise NotFound(f"{what}: the topic was deleted and made anew: read the new one from its start")
        self._id = found
        return True

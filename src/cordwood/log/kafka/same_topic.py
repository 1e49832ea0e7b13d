"""Whether a log still belongs to the topic that it was read from first. Blocking."""

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
        """After what was read: an id never comes back, so that all of it is of the topic that has the id now.

        False: the broker that was asked does not know the topic.
        A topic that was deleted and created again is `Conflict` where the caller names it, else `NotFound`.
        """
        try:
            found = self._offsets.topic_id(self._topic, self._timeout)
        except NotFound:
            return False  # by a broker that has not heard of it yet; of one that is gone nothing can be read
        if self._id is not None and self._id != found:
            if self.named:
                raise created_again(what, self._id, found)
            raise NotFound(f"{what}: the topic was deleted and made anew: read the new one from its start")
        self._id = found
        return True

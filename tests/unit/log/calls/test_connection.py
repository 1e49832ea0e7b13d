"""A connection is closed and read-only for itself, whatever it shares."""

import pytest

from cordwood.errors import Unavailable
from cordwood.log.calls.connection import Connection


class Shared:
    def __init__(self) -> None:
        self.gone = False

    def __str__(self) -> str:
        return "/srv/data"

    def check(self) -> None:
        if self.gone:
            raise Unavailable("/srv/data: the folder is gone", reason="closed")


def test_a_closed_connection_says_where_it_led() -> None:
    connection = Connection(Shared(), read_only=False)
    connection.check_writable()
    connection.closed = True
    with pytest.raises(Unavailable, match="the connection to /srv/data is closed") as caught:
        connection.check()
    assert (caught.value.reason, caught.value.outcome) == ("closed", "not_written")


def test_a_read_only_connection_refuses_writes_alone() -> None:
    connection = Connection(Shared(), read_only=True)
    connection.check()
    with pytest.raises(Unavailable, match="/srv/data is connected with read_only=True") as caught:
        connection.check_writable()
    assert caught.value.reason == "read-only"


def test_what_is_shared_is_checked_first() -> None:
    shared = Shared()
    connection = Connection(shared, read_only=True)
    shared.gone = connection.closed = True
    with pytest.raises(Unavailable, match="the folder is gone"):
        connection.check_writable()

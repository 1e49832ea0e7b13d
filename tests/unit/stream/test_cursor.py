"""Reading a log across its plogs: what it costs to follow it, and what happens beside it meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cordwood.log.native.engine import EngineSettings
from cordwood.log.native.stream.blocks import PlogCursor
from cordwood.log.native.stream.cursor import LogCursor
from cordwood.records import FrameHeader
from tests.unit.stream.one_log import OneLog


@contextmanager
def headers_decoded() -> Iterator[list[FrameHeader]]:
    """The headers that are looked at meanwhile."""
    seen: list[FrameHeader] = []
    decode = PlogCursor._header

    def noted(cursor: PlogCursor, data: memoryview, at: int) -> FrameHeader:
        seen.append(decode(cursor, data, at))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlogCursor, "_header", noted)
        yield seen


def followed(cursor: LogCursor) -> list[bytes | None]:
    """What is new, to the end of the log."""
    values = []
    while batches := cursor.read(None):
        values += [value for batch in batches for value in batch.values]
    return values


def test_a_follower_looks_at_each_frame_once_however_many_stand_before_it() -> None:
    one = OneLog()
    cursor = LogCursor(one.log, 0)
    assert followed(cursor) == [b"first"]
    with headers_decoded() as headers:
        for number in range(50):
            one.submit(b"%d" % number)
            one.run()
            assert followed(cursor) == [b"%d" % number]
    assert len(headers) == 50


def test_a_follower_goes_on_across_switches_and_trims() -> None:
    one = OneLog(EngineSettings(plog_bytes_max=600))
    cursor = LogCursor(one.log, 0)
    assert followed(cursor) == [b"first"]
    with headers_decoded() as headers:
        for number in range(40):
            one.submit(b"%d" % number)
            one.run()
            assert followed(cursor) == [b"%d" % number]
            if number % 7 == 3:
                # Now and then all of it: the plog that the follower rests in goes, too.
                one.folder.trim("a", cursor.offset - number % 2)
                one.run()
    assert len(headers) == 40
    assert len({header.plog for header in headers}) > 5


def test_a_follower_that_stood_still_goes_on_in_the_plogs_that_were_made_since() -> None:
    one = OneLog(EngineSettings(plog_bytes_max=600))
    cursor = LogCursor(one.log, 0)
    followed(cursor)
    for number in range(20):
        one.submit(b"%d" % number)
        one.run()
    assert followed(cursor) == [b"%d" % number for number in range(20)]

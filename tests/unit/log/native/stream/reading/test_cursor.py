"""Reading a log across its plogs: what it costs to follow it, and what happens beside it meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cordwood.errors import Corrupt
from cordwood.log.native.env.disk import File
from cordwood.log.native.folder.writer import FolderSettings
from cordwood.log.native.plog import PlogId, PlogStore
from cordwood.log.native.stream.reading.blocks import PlogCursor
from cordwood.log.native.stream.reading.cursor import Extent, LogCursor, offset_at
from cordwood.records import FrameHeader
from tests.support.folder.one_log import OneLog


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
    """The new records, to the end of the log."""
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
    one = OneLog(FolderSettings(plog_bytes_max=600))
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


def test_a_follower_that_paused_continues_in_the_plogs_made_since() -> None:
    one = OneLog(FolderSettings(plog_bytes_max=600))
    cursor = LogCursor(one.log, 0)
    followed(cursor)
    for number in range(20):
        one.submit(b"%d" % number)
        one.run()
    assert followed(cursor) == [b"%d" % number for number in range(20)]


def ten_plogs() -> OneLog:
    """A record and a time each."""
    one = OneLog(FolderSettings(plog_bytes_max=300), used=False)
    for _ in range(10):
        one.clock.advance(1)
        one.submit(bytes(150))
        one.run()
    assert len(one.log.extent().chain) == 10
    return one


def trim_before_next_open(one: OneLog, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """Between the look at which plogs there are, and the opening of one of them."""
    open_file = PlogStore.open_file

    def trimmed_first(plogs: PlogStore, id: PlogId) -> File:
        monkeypatch.setattr(PlogStore, "open_file", open_file)
        one.folder.trim("a", before)
        one.run()
        return open_file(plogs, id)

    monkeypatch.setattr(PlogStore, "open_file", trimmed_first)


@pytest.mark.parametrize("before", [1, 4, 9, 10])
def test_a_time_is_found_though_the_plog_is_trimmed_while_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    one = ten_plogs()
    trim_before_next_open(one, monkeypatch, before)
    assert offset_at(one.log, 0) == before


def test_a_search_by_time_survives_a_trim_of_the_open_plog() -> None:
    one = ten_plogs()
    view = one.log.extent()
    one.folder.trim("a", 10)
    one.run()

    class Trimming:
        """The start is known before the chain changes."""

        name = one.log.name
        plogs = one.log.plogs
        topic_id = one.log.topic_id

        def extent(self, beyond: int | None = None) -> Extent:
            return view._replace(start=10)

    assert offset_at(Trimming(), 0) == 10


def test_a_missing_plog_that_was_not_trimmed_fails_a_search_by_time() -> None:
    one = ten_plogs()
    one.folder.disk.remove(f"plogs/{one.log.extent().chain.links[0].id.file_name}")
    with pytest.raises(Corrupt, match=r"a/0: all from offset 0 on should be kept, but plog .* is gone"):
        offset_at(one.log, 0)

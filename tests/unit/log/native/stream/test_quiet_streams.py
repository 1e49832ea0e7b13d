"""A stream whose files another thread closes: only while nothing is written, and nothing that comes then is lost."""

import pytest

from cordwood.log.native.plog import Plog
from tests.support.folder.one_log import Caller, OneLog, during_next_sync


@pytest.fixture
def one() -> OneLog:
    return OneLog()


def test_a_quiet_stream_opens_its_plog_again_for_the_next_append(one: OneLog) -> None:
    assert one.log.stream is not None
    one.log.stream.close_files_if_quiet()
    assert one.log.stream._active is not None
    assert not one.log.stream._active.open
    caller = one.submit(b"next")
    one.run()
    assert caller.offsets == range(1, 2)
    assert len(one.log.stream.chain.links) == 1


def test_a_stream_that_is_written_keeps_its_files(one: OneLog, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = one.log.stream
    assert stream is not None
    during_next_sync(monkeypatch, stream.close_files_if_quiet)
    caller = one.submit(b"written")
    one.run()
    assert caller.offsets == range(1, 2)
    assert stream._active is not None
    assert stream._active.open


def test_an_append_that_comes_while_the_files_are_closed_is_written(
    one: OneLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = one.log.stream
    assert stream is not None
    callers: list[Caller] = []
    close = Plog.close

    def submit_first(plog: Plog) -> None:
        monkeypatch.undo()
        callers.append(one.submit(b"meanwhile"))
        close(plog)

    monkeypatch.setattr(Plog, "close", submit_first)
    stream.close_files_if_quiet()
    one.run()
    assert [caller.offsets for caller in callers] == [range(1, 2)]

"""An append that was refused is not written by a second try of its group."""

from cordwood.errors import Conflict
from tests.support.folder.one_log import OneLog


def test_after_a_failed_sync_refused_appends_stay_unwritten() -> None:
    one = OneLog()
    plog = one.log.extent().chain.links[-1].id.file_name
    written = one.submit(b"second")
    refused = one.submit(b"never", expected=9)
    one.folder.disk.fail("sync", name_contains=plog)
    one.run()
    assert written.answers == [range(1, 2)]
    assert len(refused.answers) == 1, "it is answered once"
    assert isinstance(refused.error, Conflict)
    assert refused.error.outcome == "not_written"
    assert one.values() == [b"first", b"second"]

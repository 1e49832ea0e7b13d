"""The state of a writer's path: each decision, case by case."""

import pytest

from cordwood import CordwoodError, Corrupt, Fenced, Timeout, Unavailable
from cordwood.wal.formats.write_path import WritePath, after_append, after_resolving


@pytest.mark.parametrize(
    ("odd", "all_returned", "path"),
    [
        (False, False, WritePath.WRITING),
        (False, True, WritePath.WRITING),
        (True, False, WritePath.SUSPECT),
        (True, True, WritePath.RESOLVING),
    ],
)
def test_r11_a_writer_reads_the_log_when_all_appends_have_returned(
    odd: bool, all_returned: bool, path: WritePath
) -> None:
    assert after_append(odd=odd, all_returned=all_returned) is path


@pytest.mark.parametrize(
    ("error", "path"),
    [
        (None, WritePath.WRITING),
        (Unavailable("no disk", reason="failed"), WritePath.UNRESOLVED),
        (Timeout("too late"), WritePath.UNRESOLVED),
        (Fenced("another owner"), WritePath.FENCED),
        (Corrupt("another log"), WritePath.BROKEN),
    ],
)
def test_r11_a_writer_sends_again_only_when_it_knows_the_log(error: CordwoodError | None, path: WritePath) -> None:
    assert after_resolving(error) is path

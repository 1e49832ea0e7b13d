"""The first append of a process, after records that nobody has replicated."""

from pathlib import Path

import cordwood
from cordwood import Event


async def test_r20_the_first_append_after_a_restart_is_numbered_after_the_head(tmp_path: Path) -> None:
    for _ in range(3):
        async with cordwood.connect(tmp_path) as cw, cw.journal("orders", replicate=False) as journal:
            await journal.append("order-1", [Event.text("a"), Event.text("b")])
            assert journal.stats().renumbered == 0
    async with cordwood.connect(tmp_path) as cw, cw.journal("orders", replicate=False) as journal:
        actions = [action async for action in journal.explain("order-1")]
    assert [(action.range, action.counted) for action in actions] == [
        (range(1, 3), True),
        (range(3, 5), True),
        (range(5, 7), True),
    ]

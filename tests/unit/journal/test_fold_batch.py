"""How many records one batch of a replicator takes."""

import pytest

from cordwood.journal import replicator
from cordwood.journal.action import Action, Delete, Purge
from cordwood.journal.fold import Topic
from cordwood.journal.header import encode_header
from cordwood.records import StoredBatch
from cordwood.records.headers import HeaderColumn


@pytest.mark.parametrize("action", [Purge(), Delete(1)])
def test_deletes_and_purges_fill_a_batch_as_events_do(action: Action, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicator, "EVENTS_MAX", 5)
    count = 20
    batch = StoredBatch.from_rows(
        list(range(count)),
        [None] * count,
        keys=[b"order-%d" % number for number in range(count)],
        timestamps=[1] * count,
        headers=HeaderColumn.of([[("journal.action", encode_header(action))]] * count),
    )
    folded = replicator.fold_batch(batch, {}, Topic("17", 0, 10_000), "orders")
    assert folded.records == 5
    assert folded.events == 0

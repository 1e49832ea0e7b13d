"""Which metadata records make a change of a chain durable."""

import pytest

from cordwood.log.native.chain.chain import Link
from cordwood.log.native.chain.records import DROPPED_MAX, Dropped, Incremental, Init, MetadataRecord
from cordwood.log.native.plog import PlogId
from cordwood.log.native.stream.rollover import ChainChange


def link(number: int) -> Link:
    return Link(PlogId("local", "0", number), 0)


SEALED = link(1).sealed(64, 10, 7)
NEXT = link(2)


@pytest.mark.parametrize(
    ("change", "records"),
    [
        pytest.param(ChainChange(1, following=NEXT), [Init(NEXT)], id="the first plog"),
        pytest.param(ChainChange(2, SEALED, NEXT), [Incremental(SEALED, NEXT)], id="a rollover"),
        pytest.param(ChainChange(2, SEALED), [Incremental(SEALED, None)], id="a seal without a next plog"),
        pytest.param(
            ChainChange(2, SEALED, dropped=[SEALED]),
            [Incremental(SEALED, None), Dropped([SEALED.id])],
            id="a drop of the plog that it seals",
        ),
        pytest.param(ChainChange(2, dropped=[SEALED]), [Dropped([SEALED.id])], id="a drop"),
        pytest.param(ChainChange(2), [], id="no change"),
    ],
)
def test_a_change_of_the_chain_is_recorded_as_a_whole(change: ChainChange, records: list[MetadataRecord]) -> None:
    assert change.records() == records


def test_a_long_drop_is_recorded_in_parts_that_fit_into_a_record() -> None:
    links = [link(number) for number in range(2 * DROPPED_MAX + 1)]
    records = ChainChange(0, dropped=links).records()
    assert [id for record in records if isinstance(record, Dropped) for id in record.ids] == [x.id for x in links]
    assert len(records) == 3

"""Records of a meta log as bytes: there and back, and no damage that goes unnoticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import Corrupt
from cordwood.wal.formats.cordwood.meta_record import (
    DROPPED,
    Marks,
    MetaOwner,
    MetaRecord,
    SnapshotPart,
    decode_meta,
    encode_meta,
)
from cordwood.wal.names import ID_MAX

numbers = st.integers(0, ID_MAX)
hosts = st.from_regex(r"[a-z0-9.-]{1,40}:[0-9]{1,7}", fullmatch=True)

SNAPSHOT = SnapshotPart(
    owner=5, number=3, part=1, parts=2, high_watermark=64, trim_target=16,
    running_count=90, writes=60, bytes=4096, forgetful=True,
    tables=[42, 43, 44], next_sequences=[5, 9, 4], deleted_through=[1, 8, 3], high_watermarks=[32, 60, DROPPED],
    pairs=[2, 0, 0], firsts=[2, 4], offsets=[16, 31], position_offsets=[20], position_bytes=[1000],
)  # fmt: skip
RECORDS: list[MetaRecord] = [
    MetaOwner(5, 77, "db1:4711"),
    MetaOwner(5, 77, "db1:4711", anew=True),
    Marks(5, [42, 43, 44], [1, 8, 3], [0, 0, 1]),
    SNAPSHOT,
    SNAPSHOT._replace(
        part=0, parts=1, forgetful=False, tables=[], next_sequences=[], deleted_through=[], high_watermarks=[],
        pairs=[], firsts=[], offsets=[], position_offsets=[], position_bytes=[],
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_was_written(record: MetaRecord) -> None:
    data = encode_meta(7, record)
    assert decode_meta(data, 7, "here") == record
    assert len(data) % 8 == 0, "records that follow each other stay aligned"


@given(region=numbers, owner=numbers, marks=st.lists(st.tuples(numbers, numbers, st.integers(0, 1)), min_size=1))
def test_marks_are_read_as_they_were_written(region: int, owner: int, marks: list[tuple[int, int, int]]) -> None:
    record = Marks(owner, *map(list, zip(*marks, strict=True)))
    assert decode_meta(encode_meta(region, record), region, "here") == record


@given(region=numbers, owner=numbers, session=numbers, who=hosts)
def test_an_owner_record_is_read_as_it_was_written(region: int, owner: int, session: int, who: str) -> None:
    record = MetaOwner(owner, session, who)
    assert decode_meta(encode_meta(region, record), region, "here") == record


@pytest.mark.parametrize("record", RECORDS)
def test_every_bit_that_flips_and_every_cut_is_noticed(record: MetaRecord) -> None:
    data = encode_meta(7, record)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(Corrupt, match=r"^metrics_meta_7/0 at offset 12: "):
            decode_meta(bytes(damaged), 7, "metrics_meta_7/0 at offset 12")
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            decode_meta(data[:length], 7, "here")
    with pytest.raises(Corrupt):
        decode_meta(data + bytes(8), 7, "here")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_meta(data, 7, "here")


def test_another_version_and_another_region_are_named() -> None:
    data = encode_meta(7, RECORDS[0])
    with pytest.raises(Corrupt, match="version 2 of a record; this Cordwood knows version 1"):
        decode_meta(b"\2" + data[1:], 7, "here")
    with pytest.raises(Corrupt, match="a record of region 7 in the meta log of region 8"):
        decode_meta(data, 8, "here")

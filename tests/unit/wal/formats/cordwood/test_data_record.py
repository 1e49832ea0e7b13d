"""Records of a data log as bytes: there and back, and no damage that goes unnoticed."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordwood.errors import Corrupt, InvalidInput
from cordwood.records import BinaryColumn
from cordwood.wal.formats.cordwood.data_record import (
    HEADER_BYTES,
    decode_record,
    decode_writes,
    encode_owner,
    encode_payloads,
    encode_write,
)
from cordwood.wal.names import ID_MAX
from cordwood.wal.record import NOBODY, DataRecord, OwnerRecord, WriteRecord, checked_payloads

numbers = st.integers(0, ID_MAX)
hosts = st.from_regex(r"[a-z0-9.-]{1,40}:[0-9]{1,7}", fullmatch=True)
payload_lists = st.lists(st.binary(max_size=40), min_size=1, max_size=20)


def decoded(data: bytes, region: int) -> DataRecord:
    """As it is in a batch, between others."""
    batch = memoryview(b"before" + data + b"behind")
    return decode_record(batch, 6, 6 + len(data), region, "metrics_data_7/0", 12, verified=False)


def written(payloads: list[bytes], region: int = 7) -> bytes:
    return encode_write(region, 5, 80, 42, 3, len(payloads), encode_payloads(payloads))


@given(region=numbers, owner=numbers, logs=numbers, table=numbers, first=numbers, payloads=payload_lists)
def test_a_write_is_read_as_it_was_written(
    region: int, owner: int, logs: int, table: int, first: int, payloads: list[bytes]
) -> None:
    data = encode_write(region, owner, logs, table, first, len(payloads), encode_payloads(payloads))
    record = decoded(data, region)
    assert isinstance(record, WriteRecord)
    assert record[:4] == (owner, logs, table, first)
    assert record.payloads == payloads
    assert len(data) % 8 == 0, "records that follow each other stay aligned"


@given(
    region=numbers,
    renews=st.integers(NOBODY, ID_MAX),
    logs=numbers,
    session=numbers,
    who=hosts,
)
def test_an_owner_record_is_read_as_it_was_written(region: int, renews: int, logs: int, session: int, who: str) -> None:
    record = OwnerRecord(renews, logs, session, who)
    assert decoded(encode_owner(region, record), region) == record


@pytest.mark.parametrize(
    "data", [written([b"hello", b"", b"x"]), encode_owner(7, OwnerRecord(NOBODY, 9, 5, "db1:4711"))]
)
def test_every_bit_that_flips_and_every_cut_is_noticed(data: bytes) -> None:
    decoded(data, 7)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(Corrupt, match=r"^metrics_data_7/0 at offset 12: "):
            decoded(bytes(damaged), 7)
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            decoded(data[:length], 7)
    with pytest.raises(Corrupt):
        decoded(data + bytes(8), 7)


@settings(max_examples=50)
@given(payloads=payload_lists, data=st.data())
def test_two_bytes_that_change_are_noticed(payloads: list[bytes], data: st.DataObject) -> None:
    record = written(payloads)
    first, second = data.draw(st.lists(st.integers(0, len(record) - 1), min_size=2, max_size=2, unique=True))
    damaged = bytearray(record)
    damaged[first] ^= data.draw(st.integers(1, 255))
    damaged[second] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Corrupt):
        decoded(bytes(damaged), 7)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decoded(data, 7)


def test_another_version_is_named() -> None:
    with pytest.raises(Corrupt, match="version 2 of a record; this Cordwood knows version 1"):
        decoded(b"\2" + written([b"x"])[1:], 7)


def test_a_record_of_another_region_is_refused() -> None:
    with pytest.raises(Corrupt, match="a record of region 8 in the log of region 7"):
        decoded(written([b"x"], region=8), 7)


def test_payloads_are_views_of_what_was_read() -> None:
    data = bytearray(written([b"abcdefgh"]))
    record: DataRecord = decode_record(memoryview(data), 0, len(data), 7, "metrics_data_7/0", 12, verified=False)
    assert isinstance(record, WriteRecord)
    data[-8:] = b"ABCDEFGH"
    assert record.payloads[0] == b"ABCDEFGH"


others = st.sampled_from(["none", "owner", "another region", "a bit", "cut"])


@given(
    lists=st.lists(payload_lists, min_size=1, max_size=6),
    other=others,
    place=st.integers(0, 5),
    bit=st.integers(0, 8 * HEADER_BYTES - 1),
    before=st.sampled_from([b"", b"8 bytes.", b"six..."]),
)
@example(lists=[[b"x"]], other="a bit", place=0, bit=8 * 4, before=b"")  # no logs
@example(lists=[[b"x"]], other="a bit", place=0, bit=8 * 56 + 3, before=b"")  # another length
@settings(max_examples=500)
def test_as_columns_writes_are_what_they_are_one_by_one(
    lists: list[list[bytes]], other: str, place: int, bit: int, before: bytes
) -> None:
    records = [
        encode_write(7, 5, 80 + number, 40 + number, 3, len(each), encode_payloads(each))
        for number, each in enumerate(lists)
    ]
    place %= len(records)
    if other == "owner":
        records[place] = encode_owner(7, OwnerRecord(NOBODY, 80, 1, "host:1"))
    elif other == "another region":
        records[place] = written([b"x"], region=8)
    elif other == "a bit":
        flipped = int.from_bytes(records[place], "little") ^ 1 << bit
        records[place] = flipped.to_bytes(len(records[place]), "little")
    elif other == "cut":
        records[place] = records[place][: bit // 8]
    bounds = [*accumulate(map(len, records), initial=len(before))]
    batch = memoryview(before + b"".join(records))
    one_by_one: list[tuple[int, int, int, int, int, list[bytes | None]]] = []
    for start, stop in pairwise(bounds):
        try:
            record = decode_record(batch, start, stop, 7, "metrics_data_7/0", 12, verified=True)
        except Corrupt:
            break
        if not isinstance(record, WriteRecord):
            break
        try:
            one_by_one.append((*record[:5], record.payloads.tolist()))
        except (ValueError, IndexError):
            # The bit was one of the bounds, which only the log's CRC guards.
            return
    writes = decode_writes(batch, bounds, 7)
    if writes is None:
        assert len(one_by_one) < len(records) or len(before) % 8
    else:
        *columns, payloads, weights = writes
        found = [*payloads]
        assert [*zip(*columns, map(list, found), strict=True)] == one_by_one
        assert [column.nbytes for column in found] == [*weights]


@pytest.mark.parametrize("payloads", [b"abc", "abc", 7, [b"a", None], [b"a", "b"], {b"a"}])
def test_what_is_no_sequence_of_bytes_is_a_type_error(payloads: object) -> None:
    with pytest.raises(TypeError, match="payloads"):
        checked_payloads(payloads)  # type: ignore[arg-type]


def test_an_empty_write_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 1 payload"):
        checked_payloads([])


def test_a_column_can_be_written_as_it_is() -> None:
    column = BinaryColumn.of([b"a", b"bc", b"d"])[1:]
    assert encode_payloads(checked_payloads(column)) == encode_payloads([b"bc", b"d"])  # type: ignore[arg-type]

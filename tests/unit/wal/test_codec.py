"""Records of a data log as bytes: there and back, and no damage that goes unnoticed."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.errors import Corrupt, InvalidInput
from cordwood.records import BinaryColumn
from cordwood.wal.codec import (
    NOBODY,
    DataRecord,
    OwnerRecord,
    WriteRecord,
    checked_payloads,
    decode_record,
    encode_owner,
    encode_payloads,
    encode_write,
)
from cordwood.wal.names import ID_MAX

numbers = st.integers(0, ID_MAX)
hosts = st.from_regex(r"[a-z0-9.-]{1,40}:[0-9]{1,7}", fullmatch=True)
payload_lists = st.lists(st.binary(max_size=40), min_size=1, max_size=20)


def decoded(data: bytes, region: int) -> DataRecord:
    """As it lies in a batch, between others."""
    batch = memoryview(b"before" + data + b"behind")
    return decode_record(batch, None, 6, 6 + len(data), region, "metrics_data_7/0", 12, verified=False)


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
    record: DataRecord = decode_record(memoryview(data), None, 0, len(data), 7, "metrics_data_7/0", 12, verified=False)
    assert isinstance(record, WriteRecord)
    data[-8:] = b"ABCDEFGH"
    assert record.payloads[0] == b"ABCDEFGH"


@pytest.mark.parametrize("before", [b"", b"four", b"before", b"12345678"])
@pytest.mark.parametrize("behind", [b"", b"behind"])
def test_records_of_a_batch_share_its_numbers_wherever_they_begin(before: bytes, behind: bytes) -> None:
    data = written([b"a", b"", b"bcd"])
    batch = memoryview(before + data + behind)
    numbers = batch[: len(batch) // 4 * 4].cast("i")
    stop = len(before) + len(data)
    record = decode_record(batch, numbers, len(before), stop, 7, "metrics_data_7/0", 12, verified=False)
    assert isinstance(record, WriteRecord)
    assert record.payloads == [b"a", b"", b"bcd"]
    assert record.payloads[1:] == [b"", b"bcd"]
    assert pickle.loads(pickle.dumps(record.payloads)) == [b"a", b"", b"bcd"]


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

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.cli.log import lines as lines_module
from cordwood.cli.log.lines import BATCH_BYTES, LineBatches


async def batches_of(path: Path, record_bytes: int = 32, append_bytes_max: int = 2 << 20) -> list[list[bytes]]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        source = LineBatches(descriptor, record_bytes, append_bytes_max)
        batches = []
        while batch := await source.next():
            batches.append(batch)
        return batches
    finally:
        os.close(descriptor)


@given(data=st.binary(max_size=200).map(lambda data: data.replace(b"x", b"\n")), read_bytes=st.integers(1, 50))
async def test_lines_are_those_of_the_file_however_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, read_bytes: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_READ_BYTES", read_bytes)
        found = [line for batch in await batches_of(path) for line in batch]
    # bytes.splitlines() would also split at a lone carriage return.
    assert found == data.removesuffix(b"\n").split(b"\n") if data else found == []


async def test_a_batch_is_bounded_also_where_lines_are_empty(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"\n" * 200_000)
    batches = await batches_of(tmp_path / "lines")
    assert sum(map(len, batches)) == 200_000
    assert max(map(len, batches)) <= BATCH_BYTES // 32


async def test_a_line_that_is_more_than_a_batch_goes_alone(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n" + b"b" * (BATCH_BYTES + 5) + b"\nc\n")
    assert [[len(line) for line in batch] for batch in await batches_of(tmp_path / "lines")] == [
        [1],
        [BATCH_BYTES + 5],
        [1],
    ]


async def test_a_log_that_takes_little_gets_small_batches(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"0123456789\n" * 1000)
    batches = await batches_of(tmp_path / "lines", record_bytes=2, append_bytes_max=240)
    assert {len(batch) for batch in batches} == {10}


async def test_an_input_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError) as caught:
            await LineBatches(folder, record_bytes=0, append_bytes_max=100).next()
    finally:
        os.close(folder)
    assert caught.value.filename == "the input"

import re
from pathlib import Path

from cordwood.records import Batch, decode_frame, decode_header
from cordwood.records.layout import FLAGS_KNOWN
from tests.support.records.batches import framed

PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "frame.md").read_text(encoding="utf-8")


def example() -> bytes:
    block = re.search(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    frame = b""
    for line in block[1].splitlines():
        at, octets = re.findall(r"^ *(\d+)  ((?:[0-9a-f]{2} ){8})  \S", line)[0]
        assert int(at) == len(frame)
        frame += bytes.fromhex(octets)
    return frame


def test_the_example_of_the_page_is_read_as_the_page_says() -> None:
    frame = example()
    header = decode_header(frame)
    assert (header.plog, header.position, header.synced_end, header.epoch) == (
        0x0123456789ABCDEF,
        4096,
        2048,
        3,
    )
    assert [tuple(record) for record in decode_frame(frame)] == [
        (b"hello", b"k1", (), 1_700_000_000_000, 70),
        (None, b"k2", (), 1_700_000_000_000, 71),
    ]


def test_the_example_of_the_page_is_what_is_written() -> None:
    batch = Batch.of([b"hello", None], keys=[b"k1", b"k2"])
    assert example() == framed(batch, plog=0x0123456789ABCDEF, now_ms=1_700_000_000_000)


def test_the_table_of_the_page_covers_the_header_without_gaps() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
    place = 0
    for at, size in rows:
        assert int(at) == place
        place += int(size)
    assert place == 96


def test_the_page_names_every_flag() -> None:
    flags = [int(flag) for flag in re.findall(r"^\| (\d+) \| [a-z]", PAGE, re.MULTILINE)]
    assert sum(flags) == FLAGS_KNOWN

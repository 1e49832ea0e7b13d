import random
from struct import pack_into

import pytest
from crc32c import crc32c

from cordwood.errors import Corrupt
from cordwood.records import Batch, FrameCut, check_frame, decode_frame, decode_header, is_whole
from tests.support.records.batches import EVERYTHING, framed

SMALL = {
    "one record": framed(Batch.of([b"a"])),
    "nothing but a null": framed(Batch.of([None])),
    "keys without nulls": framed(Batch.of([b"a", b""], keys=[b"k", b""])),
    "every column": framed(EVERYTHING),
    "a group": framed(EVERYTHING, Batch.of([b"a"]), Batch.of([None], keys=[b"k"])),
}
BIG = framed(Batch.of([b"x" * 1000] * 1000, keys=[b"k"] * 1000))


def resealed(frame: bytes, at: int, kind: str, value: int) -> bytes:
    """The frame with another value at that byte, and CRCs that are right for it."""
    changed = bytearray(frame)
    pack_into("<" + kind, changed, at, value)
    pack_into("<I", changed, 84, crc32c(changed[16:84], crc32c(changed[:12])))
    pack_into("<I", changed, 12, crc32c(changed[16:], crc32c(changed[:12])))
    return bytes(changed)


@pytest.mark.parametrize("name", SMALL)
def test_every_flipped_bit_of_a_small_frame_is_found(name: str) -> None:
    frame = memoryview(bytearray(SMALL[name]))
    for bit in range(8 * len(frame)):
        frame[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(Corrupt):
            decode_frame(frame)
        frame[bit >> 3] ^= 1 << (bit & 7)
    decode_frame(frame)


@pytest.mark.parametrize("name", SMALL)
def test_every_truncation_of_a_small_frame_is_a_cut(name: str) -> None:
    frame = SMALL[name]
    for length in range(len(frame)):
        with pytest.raises(FrameCut):
            decode_frame(frame[:length])
        assert not is_whole(frame[:length])


def test_flipped_bits_of_a_big_frame_are_found() -> None:
    frame = memoryview(bytearray(BIG))
    for bit in random.Random(1).sample(range(8 * len(frame)), 500):
        frame[bit >> 3] ^= 1 << (bit & 7)
        assert not is_whole(frame)
        frame[bit >> 3] ^= 1 << (bit & 7)
    assert is_whole(frame)


def test_truncations_of_a_big_frame_are_cuts() -> None:
    for length in random.Random(2).sample(range(len(BIG)), 500):
        with pytest.raises(FrameCut):
            check_frame(memoryview(BIG)[:length])


def test_a_cut_names_what_is_there_and_what_is_missing() -> None:
    frame = SMALL["one record"]
    with pytest.raises(FrameCut, match="at byte 0 is cut: 95 bytes of a header of 96"):
        decode_header(frame[:95])
    with pytest.raises(FrameCut, match=f"at byte 8 is cut: 100 bytes of {len(frame)}"):
        decode_frame((bytes(8) + frame)[:108], 8)


@pytest.mark.parametrize("name", SMALL)
def test_every_flipped_bit_of_a_header_is_found_by_the_header_alone(name: str) -> None:
    header = memoryview(bytearray(SMALL[name][:96]))
    for bit in range(8 * len(header)):
        if bit >> 3 in range(12, 16):
            continue  # the CRC of the whole frame
        header[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(Corrupt):
            decode_header(header)
        header[bit >> 3] ^= 1 << (bit & 7)


def test_zeros_are_no_frame() -> None:
    with pytest.raises(Corrupt, match="no frame at byte 32: magic") as caught:
        decode_header(bytes(200), 32)
    assert not isinstance(caught.value, FrameCut)


# In each case the CRC is right: the frame is of a writer that breaks the format, or of a later version.
WRONG_HEADERS = {
    "version": (4, "B", 2, "version 2; this Cordwood reads version 1"),
    "codec": (5, "B", 3, "codec 3; this Cordwood reads codec 0"),
    "flags": (6, "H", 64 | 256, "unknown flags 0x140"),
    "length not a multiple of 8": (8, "I", 113, "length 113"),
    "length of nothing": (8, "I", 96, "length 96"),
    "length over the limit": (8, "I", 2 * 1024 * 1024 + 8, "length 2097160; a multiple of 8 up to 2097152"),
    "length that is not what the columns need": (8, "I", 120, "length 120, but its columns need 112"),
    "no records": (56, "I", 0, "no records"),
    "more records than fit": (56, "I", 2**32 - 1, "but its columns need"),
    "bytes of keys without keys": (64, "I", 1, "1 bytes of keys.*but no keys"),
    "null keys without keys": (6, "H", 2, "flags 0x2.*but no keys"),
    "more bytes of values": (68, "I", 9, "but its columns need 120"),
    "headers without a column": (72, "I", 1, "1 headers.*but no column"),
    "bytes of names without a column": (76, "I", 1, "but no column"),
    "bytes of header values without a column": (80, "I", 1, "but no column"),
    "null headers without a column": (6, "H", 16, "flags 0x10.*but no column"),
    "a column of no headers": (6, "H", 8, "a column of headers, but no headers"),
    "bytes reserved for ordering": (88, "Q", 255, "reserved bytes are not zero: 0xff"),
}


@pytest.mark.parametrize("name", WRONG_HEADERS)
def test_a_header_that_breaks_the_format_is_named(name: str) -> None:
    at, kind, value, words = WRONG_HEADERS[name]
    frame = bytes(40) + resealed(SMALL["one record"], at, kind, value)
    with pytest.raises(Corrupt, match=f"damaged frame at byte 40: .*{words}") as caught:
        decode_header(frame, 40)
    assert not isinstance(caught.value, FrameCut)


def test_offsets_that_do_not_span_the_values_are_damage() -> None:
    frame = SMALL["one record"]
    with pytest.raises(Corrupt, match="offsets at byte 96 of it go from 1 to 1, not from 0 to 1"):
        decode_frame(resealed(frame, 96, "i", 1))
    with pytest.raises(Corrupt, match="go from 0 to 2, not from 0 to 1"):
        decode_frame(resealed(frame, 100, "i", 2))


def test_padding_that_is_not_zero_is_damage() -> None:
    frame = SMALL["one record"]
    with pytest.raises(Corrupt, match="padding at byte 105 of the frame is not zero"):
        decode_frame(resealed(frame, len(frame) - 1, "B", 1))


def test_bits_of_a_bitmap_beyond_its_entries_are_damage() -> None:
    with pytest.raises(Corrupt, match="bits beyond its 1 entries"):
        decode_frame(resealed(SMALL["nothing but a null"], 96, "B", 2))


def test_a_header_name_that_is_not_utf8_is_damage_when_it_is_read() -> None:
    frame = framed(Batch.of([b""], headers=[[("ab", b"")]]))
    batch = decode_frame(resealed(frame, frame.index(b"ab"), "B", 0xFF))
    with pytest.raises(Corrupt, match="not UTF-8"):
        batch.headers[0]


def test_a_frame_that_somebody_stored_as_a_value_names_another_place() -> None:
    inner = framed(Batch.of([b"a"]), position=0, plog=1)
    outer = framed(Batch.of([inner]), position=0, plog=2)
    header = check_frame(outer, outer.index(inner))
    assert header.plog == 1

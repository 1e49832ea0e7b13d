"""The 64 bytes that seal a plog."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood.log.native.plog import PlogId, PlogStore, sealed_end
from cordwood.log.native.plog.seal import SEAL_BYTES, Seal
from cordwood.simulation.disk import SimulatedDisk

ID = PlogId("local", "0", 255)
FILE = f"plogs/{ID.file_name}"

seals = st.builds(
    Seal,
    plog=st.integers(1, 2**64 - 1),
    end=st.integers(0, 2**63),
    next_offset=st.integers(0, 2**63),
    max_timestamp=st.integers(-1, 2**63 - 1),
)


@given(seals)
def test_a_seal_comes_back_and_with_any_bit_flipped_it_is_none(seal: Seal) -> None:
    data = seal.encode()
    assert (len(data), Seal.decode(data), Seal.decode(memoryview(data))) == (SEAL_BYTES, seal, seal)
    for bit in range(8 * SEAL_BYTES):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert Seal.decode(bytes(flipped)) is None, bit
    assert all(Seal.decode(data[:length]) is None for length in range(SEAL_BYTES))


def test_the_seal_of_another_plog_is_none_of_this_one() -> None:
    disk = SimulatedDisk()
    plogs = PlogStore(disk)
    plogs.prepare()
    plogs.create(ID, 100).close()
    file = disk.open(FILE, write=True)
    file.truncate(0)
    file.write([Seal(254, 5, 7, 9).encode()], 0)
    assert sealed_end(file, ID) == 0

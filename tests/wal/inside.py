"""The parts of a region of our own codec that tests look into."""

from cordwood import Region
from cordwood.wal.data_log import DataLog
from cordwood.wal.keeper import Keeper
from cordwood.wal.writer import Writer


def data_of(region: Region) -> DataLog:
    assert isinstance(region._data, DataLog)
    return region._data


def writer_of(region: Region) -> Writer:
    writer = region._owner().writer
    assert isinstance(writer, Writer)
    return writer


def keeper_of(region: Region) -> Keeper:
    keeper = region._owner().keeper
    assert isinstance(keeper, Keeper)
    return keeper

"""The parts of a region of our own codec that tests look into."""

from cordwood import Region
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_writer import MetaWriter
from cordwood.wal.formats.cordwood.writer import Writer


def data_of(region: Region) -> DataLog:
    assert isinstance(region._data, DataLog)
    return region._data


def writer_of(region: Region) -> Writer:
    writer = region._owner().writer
    assert isinstance(writer, Writer)
    return writer


def meta_writer_of(region: Region) -> MetaWriter:
    meta_writer = region._owner().meta_writer
    assert isinstance(meta_writer, MetaWriter)
    return meta_writer

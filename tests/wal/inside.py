"""The parts of a region of our own codec that tests look into."""

from cordwood import Log, Region
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_log import MetaLog
from cordwood.wal.formats.cordwood.meta_writer import MetaWriter
from cordwood.wal.formats.cordwood.writer import Writer
from cordwood.wal.formats.entrywise.log import EntrywiseMeta


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


def meta_log_of(region: Region) -> Log:
    meta = region._meta
    assert isinstance(meta, MetaLog | EntrywiseMeta)
    return meta.log

"""The parts of a region that tests look into; those of one codec assert that the region has it."""

import asyncio

from cordwood import Log, Region
from cordwood.wal.cleaning.cleaner import Cleaner
from cordwood.wal.formats.cordwood.data_log import DataLog
from cordwood.wal.formats.cordwood.meta_log import MetaLog
from cordwood.wal.formats.cordwood.meta_writer import MetaWriter
from cordwood.wal.formats.cordwood.writer import Writer
from cordwood.wal.formats.entrywise.log import EntrywiseMeta
from cordwood.wal.formats.entrywise.rfc.meta_writer import RfcMetaWriter


def data_of(region: Region) -> DataLog:
    assert isinstance(region._data, DataLog)
    return region._data


def cleaner_of(region: Region) -> Cleaner:
    return region._owner().cleaner


def background_task_of(region: Region) -> "asyncio.Task[None]":
    """The task of the background cleaner."""
    assert region._owned is not None
    assert region._owned.background is not None
    return region._owned.background._task


def rfc_meta_writer_of(region: Region) -> RfcMetaWriter:
    meta_writer = region._owner().meta_writer
    assert isinstance(meta_writer, RfcMetaWriter)
    return meta_writer


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

"""The day on which a journal expires: by record timestamps, in UTC (R27)."""

from datetime import UTC, date, datetime, timedelta


def expire_on(timestamp: int, expire_after_ns: int) -> date:
    """The UTC day of a record's timestamp in ms plus the duration; the last day of the calendar if it is later.

    >>> expire_on(1_576_059_010_000, 86_400_000_000_000)
    datetime.date(2019, 12, 12)
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp + expire_after_ns // 1_000_000)
    except OverflowError:
        return date.max if timestamp + expire_after_ns > 0 else date.min
    return moment.date()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

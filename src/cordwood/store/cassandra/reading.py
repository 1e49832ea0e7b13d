"""What a store reads. Each function is a part of one call."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import msgspec

from cordwood.errors import Corrupt
from cordwood.store.interface import EventPage, ScanPart, TopicPointers
from cordwood.store.rows import Binding, DeadLetter, EventRow, HeadRow, Place, SnapshotRow
from cordwood.store.segments import HEAD_SEGMENTS, OLD_HEAD_SEGMENTS, head_segments, segment_of

from .driver import days_of, nanoseconds_of
from .session import Call, together

ROW_BYTES: Final = 128
"""What a row counts on a page besides its texts and its payload: the numbers, and the objects around them."""

KEYS_PER_PAGE: Final = 1000
"""Ids and head rows on one page of a scan."""

SEGMENTS_ASKED: Final = 500
"""A narrow part asks for its segments by number; a wide one looks first which of them have rows."""

SEGMENTS_AT_ONCE: Final = 256
"""How many segments a scan asks for at once."""

PARTS_AT_ONCE: Final = 4
"""How many segments of event rows a scan reads at once: each holds a page."""

DAYS_MAX: Final = 31
"""Days of expiry that the index is asked for; with more, a scan of the head rows is cheaper."""

SEQ_NR_MAX: Final = 2**63 - 1
BINDING_PREFIX: Final = "cordwood/"

_KEY_ROWS: Final = 5000  # of a query for keys alone: some 100 bytes each
_decode_binding = msgspec.json.Decoder(Binding).decode


class HeadExtra(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the Scala library's head row has no column for: JSON in `metadata`, which that library never touches."""

    closed: Place | None = None
    append_id: str | None = None


_decode_extra = msgspec.json.Decoder(HeadExtra).decode
encode_extra = msgspec.json.Encoder().encode


class StoredHead(NamedTuple):
    """A head row, and the segment in which it is."""

    segment: int
    head: HeadRow


# --- topics


async def topics(call: Call) -> list[TopicPointers]:
    """Every topic that is bound or has a pointer, by name."""
    bound: dict[str, int] = {}
    async for page in call.pages(call.cql.settings, (), _KEY_ROWS):
        for key, value in page:
            topic = key.removeprefix(BINDING_PREFIX)
            if topic != key and "/" not in topic and value is not None:
                bound[topic] = _binding_of(call, key, value).partitions
    offsets: dict[str, dict[int, int]] = {}
    updates: dict[str, int] = {}
    async for page in call.pages(call.cql.pointers, (), _KEY_ROWS):
        for topic, partition, offset, updated in page:
            if offset is None:
                continue
            offsets.setdefault(topic, {})[partition] = offset
            updates[topic] = max(updated or 0, updates.get(topic, updated or 0))
    return [
        TopicPointers(topic, bound.get(topic), offsets.get(topic, {}), updates.get(topic))
        for topic in sorted(bound.keys() | offsets.keys())
    ]


async def binding(call: Call, topic: str) -> Binding | None:
    value = await setting(call, BINDING_PREFIX + topic)
    return None if value is None else _binding_of(call, BINDING_PREFIX + topic, value)


def _binding_of(call: Call, key: str, value: str) -> Binding:
    try:
        return _decode_binding(value)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{call.session.name}: the setting {key} cannot be read: {error}") from error


async def setting(call: Call, key: str) -> str | None:
    rows, _ = await call.ask(call.cql.setting, (key,))
    return None if not rows or rows[0][0] is None else str(rows[0][0])


async def pointers(call: Call, topic: str, partitions: Sequence[int] | None) -> dict[int, int]:
    """The pointers of these partitions; None: of all that the table has, which reads all of it."""
    if partitions is None:
        found: dict[int, int] = {}
        async for page in call.pages(call.cql.pointers, (), _KEY_ROWS):
            found.update((row[1], row[2]) for row in page if row[0] == topic and row[2] is not None)
        return found
    answers = await call.ask_all(call.cql.pointer, [(topic, partition) for partition in partitions])
    return {
        partition: answer.rows[0][0]
        for partition, answer in zip(partitions, answers, strict=True)
        if answer.rows and answer.rows[0][0] is not None
    }


async def pointer(call: Call, topic: str, partition: int) -> int | None:
    return (await pointers(call, topic, [partition])).get(partition)


# --- head rows


async def stored_heads(call: Call, topic: str, ids: Sequence[str]) -> dict[str, StoredHead]:
    """The head rows as stored. Most are in the segment of now: only for the others the old one is asked, too.

    A row moves from the old one to that of now: one that was in neither may have moved between the two questions.
    """
    found: dict[str, StoredHead] = {}
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return found
    for id in wanted:
        if not isinstance(id, str):
            raise TypeError(f"an id is a str, not {type(id).__name__}")
    segments = [head_segments(id) for id in wanted]
    await _add_heads(call, topic, [(id, place.now) for id, place in zip(wanted, segments, strict=True)], found)
    missing = [
        (id, place.old)
        for id, place in zip(wanted, segments, strict=True)
        if id not in found and place.old != place.now
    ]
    if missing:
        await _add_heads(call, topic, missing, found)
        gone = [(id, head_segments(id).now) for id, _ in missing if id not in found]
        if gone:
            await _add_heads(call, topic, gone, found)
    return found


async def _add_heads(call: Call, topic: str, places: Sequence[tuple[str, int]], found: dict[str, StoredHead]) -> None:
    answers = await call.ask_all(call.cql.head, [(topic, segment, id) for id, segment in places])
    for (id, segment), answer in zip(places, answers, strict=True):
        if answer.rows and (head := _head_of(call, answer.rows[0])) is not None:
            found[id] = StoredHead(segment, head)


async def heads(call: Call, topic: str, ids: Sequence[str]) -> dict[str, StoredHead]:
    """The head rows, each closed by the first dead letter that nobody has skipped."""
    found = await stored_heads(call, topic, ids)
    return {id: kept for id, row in found.items() if (kept := await settled(call, topic, id, row)) is not None}


async def settled(call: Call, topic: str, id: str, row: StoredHead) -> StoredHead | None:
    """The row with the place that closes its key now (R43); None if it only closed its key, and no longer does."""
    closed = row.head.closed
    if closed is None:
        return row
    rows, _ = await call.ask(call.cql.letters_of_key, (topic, closed.partition, id))
    skipped = {offset: at is not None for offset, at in rows}
    first = min((offset for offset, is_skipped in skipped.items() if not is_skipped), default=None)
    if not skipped.get(closed.offset, False):
        return row  # it is not skipped
    if first is not None:
        return StoredHead(row.segment, msgspec.structs.replace(row.head, closed=Place(closed.partition, first)))
    if not row.head.seq_nr and not row.head.delete_to:
        return None
    return StoredHead(row.segment, msgspec.structs.replace(row.head, closed=None))


def _head_of(call: Call, row: Sequence[Any]) -> HeadRow | None:
    """The row; None if it lacks what each has: an update of the Scala library after a purge leaves such a row."""
    id, partition, offset, segment_size, seq_nr, created, updated, delete_to, life, after, on, origin, extra = row[:13]
    if partition is None or offset is None or segment_size is None or seq_nr is None:
        return None
    try:
        more = _NO_EXTRA if not extra else _decode_extra(extra)
        day = days_of(on)
        expire_on = None if day is None else date.fromordinal(max(1, min(day, date.max.toordinal())))
    except msgspec.DecodeError as error:
        raise Corrupt(f"{call.session.name}: the head row of {id!r} has the metadata {extra!r}: {error}") from error
    return HeadRow(
        partition=partition,
        offset=offset,
        segment_size=segment_size,
        seq_nr=seq_nr,
        created=created or 0,
        updated=updated or 0,
        delete_to=delete_to,
        life=life,
        expire_after_ns=nanoseconds_of(after),
        expire_on=expire_on,
        origin=origin,
        closed=more.closed,
        append_id=more.append_id,
    )


_NO_EXTRA: Final = HeadExtra()


# --- event rows


class PageSize:
    """How many rows of one page to ask for: rows have no length that a query could limit.

    The first query is small, and each further one at most four times as large as all before it, and as the rows that it
    found let expect. What other journals have tells nothing: the next may have rows a thousand times as large. A
    request that is repeated asks for half as many (`Call.send`).
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._fetched = 0
        self._largest = 0

    def rows(self, size: int) -> int:
        """How many rows to ask for next, where the page has so many bytes."""
        if not self._largest:
            return _FIRST_ROWS
        fit = max(0, self._bytes_max - size) // self._largest + 2
        return min(4 * self._fetched, _ROWS_MAX, fit)

    def saw(self, rows: int, largest: int) -> None:
        """Learn from an answer."""
        self._fetched += rows
        self._largest = max(largest, self._largest)


_FIRST_ROWS: Final = 8
_ROWS_MAX: Final = 4096


async def events(call: Call, topic: str, id: str, head: HeadRow, start: int, stop: int, bytes_max: int) -> EventPage:
    """A page of a journal's rows. It may span segments; numbers with one seq_nr are never apart."""
    last = min(stop - 1, head.seq_nr)
    if start > last:
        return EventPage([], None)
    rows: list[EventRow] = []
    sizes = PageSize(bytes_max)
    size = 0
    segment, end = segment_of(start, head.segment_size), segment_of(last, head.segment_size)
    while segment <= end:
        before = len(rows)
        state: bytes | None = None
        while True:
            wanted = sizes.rows(size)
            found, state = await call.ask(call.cql.events, (id, topic, segment, start, last), wanted, state)
            largest = 0
            for row in found:
                weight = _weight(row)
                largest = max(largest, weight)
                size += weight
                if size > bytes_max and rows and rows[-1].seq_nr != row[0]:
                    return EventPage(rows, row[0])
                rows.append(_event_of(row))
            sizes.saw(len(found), largest)
            if state is None:
                break
        segment += 1
        if len(rows) == before and segment < end:
            # Numbers may have gaps: a topic of the Scala library may begin the next event anywhere.
            segment = await _next_part(call, topic, id, segment, end)
    return EventPage(rows, None)


async def _next_part(call: Call, topic: str, id: str, first: int, end: int) -> int:
    """The next segment from this one on that has rows; one beyond the end if none has."""
    while first <= end:
        some = list(range(first, min(first + SEGMENTS_AT_ONCE, end + 1)))
        rows, _ = await call.ask(call.cql.parts_with_events, (id, topic, some), len(some) + 1)
        if rows:
            return int(min(segment for (segment,) in rows))
        first = some[-1] + 1
    return end + 1


def _weight(row: Sequence[Any]) -> int:
    size = ROW_BYTES
    if (text := row[9]) is not None:
        size += len(text) if text.isascii() else len(text.encode())
    elif (blob := row[10]) is not None:
        size += len(blob)
    if (text := row[7]) is not None:
        size += len(text) if text.isascii() else len(text.encode())
    if row[11] is not None or row[12] is not None:
        texts = (*(row[11] or ()), *(row[12] or {}), *(row[12] or {}).values())
        size += sum(len(text.encode()) for text in texts)
    return size


def _event_of(row: Sequence[Any]) -> EventRow:
    if row[11] is None and row[12] is None:
        return EventRow(*row)
    tags, headers = row[11], row[12]
    values = [*row[:11], tuple(tags) if tags else None, dict(headers) if headers else None]
    return EventRow(*values)


# --- scans


async def head_parts(call: Call, topic: str) -> list[int]:
    """The segments of the table that have head rows of the topic, in their order."""
    found: list[int] = []
    async for page in call.pages(call.cql.segments, (), _KEY_ROWS):
        found.extend(segment for name, segment in page if name == topic)
    return sorted(found)


def split(segments: Sequence[int], count: int) -> list[ScanPart]:
    """At most so many parts with about equal numbers of these segments."""
    step = max(1, -(-len(segments) // count))
    bounds = list(segments[step::step])
    return [ScanPart(first, stop) for first, stop in zip([None, *bounds], [*bounds, None], strict=True)]


def in_part(segment: int, part: ScanPart) -> bool:
    """Whether a part has the journals of this segment."""
    return (part.first is None or segment >= int(part.first)) and (part.stop is None or segment < int(part.stop))


async def scan_heads(call: Call, topic: str, segments: Sequence[int], part: ScanPart) -> list[tuple[str, HeadRow]]:
    """The head rows of these segments that belong to the part: a journal belongs to its segment of now."""
    found: list[tuple[str, HeadRow]] = []
    older: list[str] = []
    rows = await _rows_of_segments(call, topic, segments)
    for segment, row in rows:
        head = _head_of(call, row)
        id = row[0]
        now = head_segments(id).now
        if head is None or not in_part(now, part):
            continue
        if segment == now:
            if (kept := await settled(call, topic, id, StoredHead(segment, head))) is not None:
                found.append((id, kept.head))
        else:
            older.append(id)
    # A row in the old segment counts only if there is none in that of now.
    found.extend(
        (id, row.head) for id, row in (await heads(call, topic, older)).items() if row.segment != head_segments(id).now
    )
    return found


async def _rows_of_segments(call: Call, topic: str, segments: Sequence[int]) -> list[tuple[int, Sequence[Any]]]:
    answers = await call.ask_all(call.cql.heads_of_segment, [(topic, segment) for segment in segments])
    rows: list[tuple[int, Sequence[Any]]] = []
    for segment, answer in zip(segments, answers, strict=True):
        rows.extend((segment, row) for row in answer.rows)
        state = answer.state
        while state is not None:
            more, state = await call.ask(call.cql.heads_of_segment, (topic, segment), _KEY_ROWS, state)
            rows.extend((segment, row) for row in more)
    return rows


async def has_older(call: Call, topic: str) -> bool:
    """Whether a head row is in its old segment, where only an old version of the Scala library puts it."""
    rows = await _rows_of_segments(call, topic, range(OLD_HEAD_SEGMENTS))
    return any(head_segments(row[0]).now != segment for segment, row in rows)


async def scanned(call: Call, topic: str, part: ScanPart, older: bool) -> list[int]:
    """The segments in which the head rows of a part may be: its own and, if there are older rows, the old ones."""
    first = 0 if part.first is None else int(part.first)
    stop = HEAD_SEGMENTS if part.stop is None else int(part.stop)
    if stop - first <= SEGMENTS_ASKED:
        segments = list(range(first, stop))
    else:
        segments = [segment for segment in await head_parts(call, topic) if in_part(segment, part)]
    return segments + [old for old in range(OLD_HEAD_SEGMENTS) if older and not in_part(old, part)]


async def expired_on(call: Call, topic: str, day: date) -> list[tuple[str, HeadRow]]:
    """The journals that expire on a day, by the index."""
    found: dict[str, tuple[int, HeadRow]] = {}
    async for page in call.pages(call.cql.heads_of_day, (topic, day), KEYS_PER_PAGE):
        for row in page:
            head = _head_of(call, row)
            now = head_segments(row[0]).now
            if head is not None and (row[0] not in found or row[13] == now):
                found[row[0]] = row[13], head
    settled_rows = [(id, await settled(call, topic, id, StoredHead(*row))) for id, row in found.items()]
    return [(id, row.head) for id, row in settled_rows if row is not None]


async def event_parts(call: Call, topic: str, part: ScanPart) -> dict[str, list[int]]:
    """The segments with event rows of each journal of a part, also of journals without a head row."""
    found: dict[str, list[int]] = {}
    async for page in call.pages(call.cql.event_parts, (topic,), _KEY_ROWS):
        for id, _, segment in page:
            if in_part(head_segments(id).now, part):
                found.setdefault(id, []).append(segment)
    return found


async def rows_of_part(
    call: Call, topic: str, id: str, segment: int, start: int, bytes_max: int
) -> tuple[list[tuple[str, EventRow]], int, int | None]:
    """Rows of one segment from a number on, their bytes, and the number at which the next ones begin."""
    rows: list[tuple[str, EventRow]] = []
    sizes = PageSize(bytes_max)
    size = 0
    state: bytes | None = None
    while True:
        wanted = sizes.rows(size)
        found, state = await call.ask(call.cql.events, (id, topic, segment, start, SEQ_NR_MAX), wanted, state)
        largest = 0
        for row in found:
            weight = _weight(row)
            largest = max(largest, weight)
            size += weight
            if size > bytes_max and rows and rows[-1][1].seq_nr != row[0]:
                return rows, size, row[0]
            rows.append((id, _event_of(row)))
        sizes.saw(len(found), largest)
        if state is None:
            return rows, size, None


async def rows_of_parts(
    call: Call, topic: str, parts: Sequence[tuple[str, int]], bytes_max: int
) -> list[tuple[list[tuple[str, EventRow]], int, int | None]]:
    """The first rows of several segments, as `rows_of_part` gives them."""
    found: dict[int, tuple[list[tuple[str, EventRow]], int, int | None]] = {}

    async def read(number: int, id: str, segment: int) -> None:
        found[number] = await rows_of_part(call, topic, id, segment, 1, bytes_max)

    await together([read(number, *part) for number, part in enumerate(parts)])
    return [found[number] for number in range(len(parts))]


# --- snapshots and dead letters


async def snapshots(call: Call, topic: str, id: str) -> list[SnapshotRow]:
    """The snapshots; of several of one number that of the highest place in the log, and of its saves the last."""
    newest: dict[tuple[str, int], tuple[tuple[int, int], SnapshotRow]] = {}
    async for page in call.pages(call.cql.snapshots, (topic, id), 10):
        for life, seq_nr, saved, offset, timestamp, payload, metadata in page:
            if timestamp is None or payload is None or offset is None:
                continue
            kept = newest.get((life, seq_nr))
            if kept is None or kept[0] < (offset, saved):
                row = SnapshotRow(life, seq_nr, timestamp, bytes(payload), metadata)
                newest[life, seq_nr] = (offset, saved), row
    rows = [row for _, row in newest.values()]
    return sorted(rows, key=lambda row: (-row.seq_nr, row.life))


async def dead_letters(call: Call, topic: str) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    async for page in call.pages(call.cql.letter_parts, (), _KEY_ROWS):
        for partition in [partition for name, partition in page if name == topic]:
            async for letters in call.pages(call.cql.letters, (topic, partition), 100):
                found.extend(_letter_of(topic, row) for row in letters)
    return sorted(found, key=lambda letter: letter.place)


async def dead_letter(call: Call, topic: str, place: Place) -> DeadLetter | None:
    async for page in call.pages(call.cql.letter, (topic, *place), 100):
        return _letter_of(topic, page[0])
    return None


def _letter_of(topic: str, row: Sequence[Any]) -> DeadLetter:
    partition, offset, through, id, reason, timestamp, key, header, value, skipped = row
    # An id is part of the primary key, which has no null; no journal has an empty id.
    return DeadLetter(topic, partition, offset, through, id or None, reason, timestamp, key, header, value, skipped)

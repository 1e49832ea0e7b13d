"""R43: a record that cannot be decoded closes its key, and no other."""

import itertools
import json
from collections.abc import Awaitable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cordwood import Corrupt, Journal, NotFound
from cordwood.journal.action import Append
from cordwood.journal.header import encode_header
from cordwood.journal.value import encode_value
from tests.support.journal.journals import Journals, append, put, read_texts, texts
from tests.support.journal.stored_rows import head_row, places

pytestmark = pytest.mark.kinds("folder and SQLite", "Kafka and SQLite", "folder and Cassandra")

BAD_HEADER = b"\xff no JSON"


def header_of(first: int, last: int, *, expected: int | None = None) -> bytes:
    """The header of an Append: a foreign one, or one of ours that follows `expected`."""
    id = None if expected is None else f"after-{expected}"
    return encode_header(Append(first, last, "json", id=id, expected=expected))


async def is_closed(call: Awaitable[object]) -> bool:
    try:
        await call
    except Corrupt:
        return True
    return False


async def check_closed(journal: Journal, key: str, offset: int, partition: int = 0) -> None:
    """Every read and every append of the key raises `Corrupt`, with the place."""
    place = rf"orders/{partition}, offset {offset}"
    with pytest.raises(Corrupt, match=place):
        await read_texts(journal, key)
    with pytest.raises(Corrupt, match=place) as caught:
        await append(journal, key, "more")
    assert caught.value.outcome == "not_written"
    for call in (journal.pointer(key), journal.load_snapshot(key)):
        with pytest.raises(Corrupt, match=place):
            await call
    for write in (journal.delete(key, through=1), journal.save_snapshot(key, 1, b"")):
        with pytest.raises(Corrupt, match=place) as caught:
            await write
        assert caught.value.outcome == "not_written"
    with pytest.raises(Corrupt, match=place):
        async with journal.recover(key):
            pass
    with pytest.raises(Corrupt, match=place):
        async with journal.follow(key) as reader:
            await anext(reader)


@pytest.mark.parametrize("replicate", [False, True])
@pytest.mark.parametrize("events", [0, 2])
async def test_a_bad_header_closes_its_key_and_no_other(journals: Journals, events: int, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "good", "1")
    if events:
        await append(journal, "bad", *("event" for _ in range(events)))
    _, offset = await put(await journals.connect(), b"bad", BAD_HEADER)
    if replicate:
        await journal.catch_up()
    for handle in (await journals.open(), await journals.open(read_only=True)):
        assert await is_closed(handle.pointer("bad"))
        assert await handle.pointer("good") == 1
    await check_closed(journal, "bad", offset)
    assert (await append(journal, "good", "2")).seq_nrs == range(2, 3)
    assert await read_texts(journal, "good") == {1: "1", 2: "2"}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b'{"append":{"range":{"from":1,"to":1e-9999999999999999999},"payloadType":"json"}}', b"{}"),
        (header_of(1, 1), b'{"events":[{"seqNr":1e-9999999999999999999,"tags":[]}]}'),
        (header_of(1, 1), b'{"events":[{"seqNr":1,"tags":[]}],"metadata":{"expireAfter":"%b days"}}' % (b"9" * 5000)),
        (b'{"append":{"range":{"from":1,"to":1},"payloadType":"json","metadata":{"data":"\xff"}}}', b"{}"),
    ],
    ids=["an exponent in the header", "an exponent in the value", "5,000 digits", "metadata that is not UTF-8"],
)
async def test_a_number_that_no_codec_holds_closes_its_key(journals: Journals, header: bytes, value: bytes) -> None:
    journal = await journals.open()
    await append(journal, "good", "1")
    await put(await journals.connect(), b"bad", header, value)
    assert await is_closed(read_texts(journal, "bad"))
    await journal.catch_up()
    assert await is_closed(read_texts(journal, "bad"))
    assert [letter.id for letter in await journal.dead_letters()] == ["bad"]
    assert await read_texts(journal, "good") == {1: "1"}


@pytest.mark.parametrize(
    "value",
    [
        b"\x00\xff random",
        b"",
        b'{"events":[]}',
        b'{"events":[{"seqNr":7,"tags":[]}]}',
        b'{"events":[{"seqNr":2,"tags":[]},{"seqNr":3,"tags":[]}]}',
        b'{"events":[{"seqNr":2,"tags":[]}],"metadata":{"expireAfter":"soon"}}',
    ],
)
async def test_a_bad_value_closes_its_key_and_no_other(journals: Journals, value: bytes) -> None:
    journal = await journals.open()
    await append(journal, "bad", "1")
    await append(journal, "good", "1")
    client = await journals.connect()
    _, offset = await put(client, b"bad", header_of(2, 2, expected=1), value)
    with pytest.raises(Corrupt, match=f"offset {offset}"):
        await read_texts(journal, "bad")
    # A header alone gives the numbers: reader and replicator agree on them.
    assert await journal.pointer("bad") == 2
    await journal.catch_up()
    await check_closed(journal, "bad", offset)
    row = head_row(journals, "bad")
    assert row is not None
    assert (row["seq_nr"], row["offset"]) == (2, offset)
    assert await read_texts(journal, "good") == {1: "1"}


@pytest.mark.parametrize("known", [False, True])
async def test_a_writer_that_knows_the_key_appends_no_more(journals: Journals, known: bool) -> None:
    journal = await journals.open()
    if known:
        await append(journal, "bad", "1")
    else:
        await append(await journals.open(), "bad", "1")
    _, offset = await put(await journals.connect(), b"bad", header_of(2, 2, expected=1), b"no value")
    await append(journal, "bad", "3")  # headers alone do not show it
    await journal.catch_up()
    with pytest.raises(Corrupt, match=f"offset {offset}"):
        await append(journal, "bad", "4")
    await journal.skip(partition=0, offset=offset)
    assert (await append(journal, "bad", "4")).seq_nrs == range(4, 5)


async def test_the_replicator_keeps_the_bytes_and_passes(journals: Journals) -> None:
    journal = await journals.open()
    client = await journals.connect()
    await journal.pointer("bad")
    _, first = await put(client, b"bad", BAD_HEADER, b"value", timestamp=1_700_000_000_000)
    _, second = await put(client, b"worse", header_of(1, 1, expected=0), b"bytes")
    await append(journal, "good", "1")
    await journal.catch_up()
    letters = await journal.dead_letters()
    assert [letter.place for letter in letters] == [(0, first), (0, second)]
    assert [(letter.id, letter.key, letter.header, letter.value) for letter in letters] == [
        ("bad", b"bad", BAD_HEADER, b"value"),
        ("worse", b"worse", header_of(1, 1, expected=0), b"bytes"),
    ]
    assert letters[0].timestamp == 1_700_000_000_000
    assert all(letter.reason and letter.skipped is None for letter in letters)
    assert journal.stats().dead_letters == 2
    assert places(journals, "good") == [(1, 0)]


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe"])
async def test_a_bad_record_without_an_id_is_a_dead_letter_alone(journals: Journals, key: bytes | None) -> None:
    journal = await journals.open()
    await append(journal, "good", "1")
    _, offset = await put(await journals.connect(), key, BAD_HEADER, partition=0)
    assert await read_texts(journal, "good") == {1: "1"}
    await journal.catch_up()
    (letter,) = await journal.dead_letters()
    assert (letter.id, letter.offset, letter.key) == (None, offset, key)
    assert await read_texts(journal, "good") == {1: "1"}
    assert (await journal.skip(partition=0, offset=offset)).skipped is not None


async def test_a_skip_opens_the_key_without_the_events(journals: Journals) -> None:
    journal = await journals.open()
    other = await journals.open()
    client = await journals.connect()
    await append(journal, "bad", "1")
    assert await other.pointer("bad") == 1
    _, offset = await put(client, b"bad", header_of(2, 3, expected=1), b"bytes")
    await put(client, b"bad", header_of(4, 4, expected=3), encode_value(texts("4"), 4, None, None)[1])
    await journal.catch_up()
    await check_closed(journal, "bad", offset)
    letter = await journal.skip(partition=0, offset=offset)
    assert (letter.id, letter.offset) == ("bad", offset)
    for handle in (journal, other, await journals.open()):
        assert await read_texts(handle, "bad") == {1: "1", 4: "4"}
        assert await handle.pointer("bad") == 4
    assert (await append(journal, "bad", "5")).seq_nrs == range(5, 6)
    await journal.catch_up()
    assert await read_texts(journal, "bad") == {1: "1", 4: "4", 5: "5"}
    # The skip is kept, and a second one has no effect.
    (kept,) = await journal.dead_letters()
    assert kept.skipped is not None
    assert await journal.skip(partition=0, offset=offset) == kept


async def test_a_skip_of_a_key_without_events_leaves_no_journal(journals: Journals) -> None:
    journal = await journals.open()
    other = await journals.open()
    assert await other.pointer("bad") is None
    _, offset = await put(await journals.connect(), b"bad", BAD_HEADER)
    assert await is_closed(other.pointer("bad"))
    await journal.catch_up()
    assert [id async for id in journal.ids()] == []
    await journal.skip(partition=0, offset=offset)
    for handle in (journal, other):
        # The other one's head still has the record, and its pointer may be an older one.
        assert await handle.pointer("bad") is None
        assert await read_texts(handle, "bad") == {}
    assert head_row(journals, "bad") is None
    assert (await append(other, "bad", "1")).seq_nrs == range(1, 2)


async def test_the_next_bad_record_keeps_the_key_closed(journals: Journals) -> None:
    journal = await journals.open()
    client = await journals.connect()
    await append(journal, "bad", "1")
    _, first = await put(client, b"bad", BAD_HEADER)
    _, second = await put(client, b"bad", BAD_HEADER)
    await journal.catch_up()
    await check_closed(journal, "bad", first)
    await journal.skip(partition=0, offset=first)
    await check_closed(journal, "bad", second)
    await journal.skip(partition=0, offset=second)
    assert await read_texts(journal, "bad") == {1: "1"}


@pytest.mark.parametrize("place", [{"partition": 0, "offset": 0}, {"partition": 9, "offset": 1}])
async def test_a_skip_without_a_dead_letter_is_not_found(journals: Journals, place: dict[str, int]) -> None:
    journal = await journals.open()
    await append(journal, "good", "1")
    await journal.catch_up()
    with pytest.raises(NotFound, match=f"orders/{place['partition']} .* offset {place['offset']}"):
        await journal.skip(**place)


@pytest.mark.parametrize("replicate", [False, True])
@pytest.mark.parametrize("events", [0, 2])
async def test_a_purge_opens_the_key(journals: Journals, events: int, replicate: bool) -> None:
    journal = await journals.open()
    await append(journal, "good", "1")
    if events:
        await append(journal, "bad", *("event" for _ in range(events)))
    await put(await journals.connect(), b"bad", BAD_HEADER)
    if replicate:
        await journal.catch_up()
    await journal.purge("bad")
    for handle in (journal, await journals.open()):
        assert await handle.pointer("bad") is None
    assert (await append(journal, "bad", "new")).seq_nrs == range(1, 2)
    await journal.catch_up()
    assert await read_texts(journal, "bad") == {1: "new"}
    assert await journal.dead_letters() == []


async def test_a_bad_record_that_lost_closes_nothing(journals: Journals) -> None:
    journal = await journals.open()
    await append(journal, "A", "1")
    await put(await journals.connect(), b"A", header_of(1, 1, expected=0), b"bytes that nobody reads")
    assert await read_texts(journal, "A") == {1: "1"}
    await journal.catch_up()
    assert await read_texts(journal, "A") == {1: "1"}
    assert await journal.dead_letters() == []


async def test_a_conditional_append_to_a_closed_key_raises(journals: Journals) -> None:
    # It is sent before the key is looked up, and must not be acked.
    journal = await journals.open()
    await append(journal, "bad", "1")
    _, offset = await put(await journals.connect(), b"bad", BAD_HEADER)
    await journal.catch_up()
    another = await journals.open()
    with pytest.raises(Corrupt, match=f"offset {offset}"):
        await append(another, "bad", "2", expected=1)
    with pytest.raises(Corrupt, match=f"offset {offset}"):
        await append(another, "bad", "2", expected=1)


_numbers = itertools.count()
_run = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def is_unknown(header: bytes) -> bool:
    """Whether a header is JSON, and names no action: such a record is ignored."""
    try:
        decoded = json.loads(header.decode(), parse_constant=int)  # int("NaN") raises
    except ValueError:
        return False
    names = ("append", "mark", "delete", "purge")
    return not isinstance(decoded, dict) or not any(isinstance(decoded.get(name), dict) for name in names)


@_run
@given(header=st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
async def test_random_bytes_as_a_header_close_one_key(journals: Journals, header: bytes) -> None:
    client, journal = await journals.first()
    key = f"k{next(_numbers)}"
    await append(journal, key, "1")
    await append(journal, "good", "1")
    await put(client, key.encode(), header)
    assert await is_closed(journal.pointer(key)) is not is_unknown(header)
    await journal.catch_up()
    assert await is_closed(journal.pointer(key)) is not is_unknown(header)
    assert await journal.pointer("good") is not None


@_run
@given(value=st.binary(max_size=60), binary=st.booleans())
async def test_random_bytes_as_a_value_close_one_key(journals: Journals, value: bytes, binary: bool) -> None:
    client, journal = await journals.first()
    key = f"k{next(_numbers)}"
    await append(journal, key, "1")
    action = Append(2, 2, "binary" if binary else "json", id="x", expected=1)
    await put(client, key.encode(), encode_header(action), value)
    await append(journal, "good", "1")
    before = await is_closed(read_texts(journal, key))
    await journal.catch_up()
    assert await is_closed(read_texts(journal, key)) is before
    assert before
    assert await journal.pointer("good") is not None

"""How large records are on Kafka: the short way, which asks whole columns, finds what the long way does."""

from hypothesis import given
from hypothesis import strategies as st

from cordwood import Batch
from cordwood.log.kafka.record_size import first_too_large, record_bytes

optional_bytes = st.none() | st.integers(0, 150).map(bytes)
names = st.integers(0, 150).map("é".__mul__)
headers = st.lists(st.tuples(names, optional_bytes), max_size=3)
rows = st.lists(st.tuples(optional_bytes, optional_bytes, headers), min_size=1, max_size=6)


@given(rows, st.integers(68, 1500), st.booleans())
def test_the_first_record_over_the_limit_is_found_whatever_it_is_made_of(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], limit: int, as_columns: bool
) -> None:
    values, keys, headers = zip(*rows, strict=True)
    batch = Batch.of(values, keys=keys, headers=headers)
    if as_columns:
        batch = Batch.of(batch.values, keys=batch.keys, headers=batch.headers)
    sizes = [record_bytes(*row) for row in rows]
    expected = next(((place, size) for place, size in enumerate(sizes) if size > limit), None)
    assert first_too_large(batch, limit) == expected

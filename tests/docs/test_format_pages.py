import hashlib
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest

from cordwood.errors import Corrupt, InvalidInput
from cordwood.journal.action import Append
from cordwood.journal.event import Event
from cordwood.journal.header import decode_header, encode_header
from cordwood.journal.value import check_numbers, decode_value
from cordwood.journal.value import encode_value as encode_journal_value
from cordwood.log.native.chain.chain import Chain, Link
from cordwood.log.native.chain.durable import Durable
from cordwood.log.native.chain.records import (
    Continued,
    Dropped,
    Full,
    Incremental,
    Init,
    MetadataRecord,
    apply,
    decode,
    encode,
)
from cordwood.log.native.coordinator import SqliteCoordinator, Stamp, TopicRow, sqlite
from cordwood.log.native.env.disk import RealDisk
from cordwood.log.native.folder.published import Catalog, Owner, PublishedReader, PublishedTopic, PublishedWriter
from cordwood.log.native.folder.staged.file import StagedFile, StagedWriter, staged_frames
from cordwood.log.native.folder.staged.leftovers import Write
from cordwood.log.native.folder.staged.plan import Plan, PlannedLog
from cordwood.log.native.folder.witness import Witness, witnessed_stamp
from cordwood.log.native.plog import Plog, PlogId, find_tail
from cordwood.log.native.plog.seal import SEAL_BYTES, Seal
from cordwood.log.topics import TopicConfig
from cordwood.pipeline.archiving.manifest import ArchivedRange, Manifest, decode_manifest, encode_manifest
from cordwood.pipeline.source.schema import spark_schema
from cordwood.records import Batch, encode_frame
from cordwood.simulation.clock import SimulatedClock
from cordwood.store import EventRow, HeadRow, KeyChanges, PartitionChanges
from cordwood.store.sqlite import reading, schema, writing
from cordwood.wal.formats.cordwood.data_record import (
    HEADER_BYTES,
    decode_record,
    encode_owner,
    encode_payloads,
    encode_write,
)
from cordwood.wal.formats.cordwood.meta_record import (
    DROPPED,
    Marks,
    MetaOwner,
    MetaRecord,
    SnapshotPart,
    decode_meta,
    encode_meta,
)
from cordwood.wal.formats.cordwood.meta_record import HEADER_BYTES as META_HEADER_BYTES
from cordwood.wal.formats.entrywise.codec import EntryKey, Known
from cordwood.wal.formats.entrywise.horaedb import HoraeDbCodec
from cordwood.wal.formats.entrywise.rfc.codec import RfcCodec, encode_key, encode_mark, encode_value
from cordwood.wal.record import NOBODY, OwnerRecord, WriteRecord
from tests.support.docs.pages import ROOT, blocks, layout, octets, page, rows

PLOG = PlogId.parse("local/0/0123456789abcdef")
NEXT = PlogId.parse("local/0/fedcba9876543210")
NOW_MS = 1_700_000_000_000


def test_every_page_has_versions_benefits_and_downsides_of_its_format() -> None:
    for path in (ROOT / "docs" / "formats").glob("*.md"):
        headings = re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings[-3:] == ["Benefits", "Downsides", "Changing the format"], path


class TestPlog:
    text = page("docs/formats/plog.md")

    def file(self) -> bytes:
        (block,) = blocks(self.text, "hex")
        return octets(block)

    def test_the_example_is_what_is_written(self, tmp_path: Path) -> None:
        disk = RealDisk(tmp_path)
        plog = Plog(PLOG, disk.create("example"), size=4096)
        plog.reserve()
        frame = encode_frame(
            [Batch.of([b"hi"])],
            plog=PLOG.random,
            position=0,
            first_offset=70,
            epoch=3,
            synced_end=0,
            now_ms=NOW_MS,
        )
        plog.append([(0, [frame], len(frame))], len(frame), 0)
        plog.sync()
        plog.seal(plog.end, next_offset=71, max_timestamp=NOW_MS)
        plog.close()
        assert (tmp_path / "example").read_bytes() == self.file()

    def test_the_example_is_read_as_the_page_says(self, tmp_path: Path) -> None:
        (tmp_path / "example").write_bytes(self.file())
        file = RealDisk(tmp_path).open("example")
        tail = find_tail(file, PLOG, next_offset=70)
        file.close()
        assert (tail.end, tail.next_offset, tail.max_timestamp) == (112, 71, NOW_MS)
        assert Seal.decode(self.file()[112:]) == Seal(PLOG.random, 112, 71, NOW_MS)

    def test_the_table_covers_the_seal_without_gaps(self) -> None:
        assert covered(layout(self.text)) == SEAL_BYTES


class TestMetadata:
    text = page("docs/formats/metadata.md")
    sealed = Link(PLOG, 70, 112, 71, NOW_MS)
    records: tuple[MetadataRecord, ...] = (
        Init(Link(PLOG, 70)),
        Incremental(sealed, Link(NEXT, 71)),
        Full([sealed, Link(NEXT, 71)]),
        Dropped([PLOG]),
        Full([]),
    )

    def test_the_examples_are_what_is_written(self) -> None:
        assert [octets(block) for block in blocks(self.text, "hex")] == [encode(record) for record in self.records]

    def test_the_examples_are_read_and_tell_the_life_of_one_log(self) -> None:
        first, rollover, whole, dropped, gone = (decode(octets(block)) for block in blocks(self.text, "hex"))
        chain = apply(apply(Chain(), first), rollover)
        assert chain.links == apply(Chain(), whole).links == (self.sealed, Link(NEXT, 71))
        assert apply(chain, dropped).links == (Link(NEXT, 71),)
        assert apply(chain, gone).links == ()

    def test_the_table_names_every_type(self) -> None:
        types = {int(row[0]): row[1] for row in rows(self.text)}
        examples: list[MetadataRecord] = [
            Init(self.sealed),
            Incremental(self.sealed, None),
            Full([]),
            Dropped([]),
            Continued([]),
        ]
        assert types == {encode(record)[1]: type(record).__name__.lower() for record in examples}


class TestPublished:
    text = page("docs/formats/published.md")
    owner = Owner(1, 0)
    durable = Durable(NEXT, 4096, 71, NOW_MS)
    catalog = Catalog("local", "0", str(PLOG), 3, [PublishedTopic(TopicRow(1, "events", 2, 1, None, None), 1)])

    def test_the_examples_are_what_is_written(self, tmp_path: Path) -> None:
        writer = PublishedWriter(RealDisk(tmp_path), 3)
        writer.put_end(1, self.owner, self.durable)
        writer.put_starts({(1, self.owner): 70})
        writer.put_catalog(self.catalog)
        writer.close()
        (slot,) = blocks(self.text, "hex")
        assert (tmp_path / "published" / "ends").read_bytes() == bytes(128) + octets(slot)
        assert [(tmp_path / "published" / "catalog").read_text()] == blocks(self.text, "catalog")

    def test_the_examples_are_read_as_the_page_says(self, tmp_path: Path) -> None:
        (tmp_path / "published").mkdir()
        (slot,) = blocks(self.text, "hex")
        (catalog,) = blocks(self.text, "catalog")
        (tmp_path / "published" / "ends").write_bytes(bytes(128) + octets(slot))
        (tmp_path / "published" / "catalog").write_text(catalog)
        reader = PublishedReader(RealDisk(tmp_path))
        assert reader.catalog() == self.catalog
        assert reader.end(1, self.owner, self.catalog) == self.durable
        assert reader.start(1, self.owner) == 70
        reader.close()

    def test_a_catalog_of_version_1_is_read_and_has_no_epoch(self, tmp_path: Path) -> None:
        (tmp_path / "published").mkdir()
        row = TopicRow(1, "events", 2, 1, None, None)
        topics = [{"slot": 1, "topic": asdict(row)}]
        entries = {"cluster": "local", "group": "0", "metadata_plog": str(PLOG), "topics": topics, "version": 1}
        body = json.dumps(entries, sort_keys=True)
        (tmp_path / "published" / "catalog").write_text(f"9b81178f\n{body}\n")
        assert PublishedReader(RealDisk(tmp_path)).catalog() == replace(self.catalog, epoch=0)

    def test_the_tables_cover_a_slot_without_gaps(self) -> None:
        assert covered(layout(self.text)) == 128


class TestWitness:
    text = page("docs/formats/witness.md")
    stamp = Stamp(20, 7, 0x0123456789ABCDEF)

    def test_the_example_is_what_is_written(self, tmp_path: Path) -> None:
        witness = Witness(RealDisk(tmp_path))
        witness.begin(self.stamp)
        witness.put(self.stamp)
        witness.close()
        (example,) = blocks(self.text, "hex")
        copy = octets(example).ljust(4096, b"\0")
        assert (tmp_path / "published" / "witness").read_bytes() == 2 * copy

    def test_the_example_is_read_as_the_page_says(self, tmp_path: Path) -> None:
        (tmp_path / "published").mkdir()
        (example,) = blocks(self.text, "hex")
        (tmp_path / "published" / "witness").write_bytes(octets(example))
        assert witnessed_stamp(RealDisk(tmp_path)) == self.stamp

    def test_the_table_covers_a_copy_without_gaps(self) -> None:
        assert covered(layout(self.text)) == 32


class TestStaged:
    text = page("docs/formats/staged.md")
    write = Write("4158b19d-974c-44b9-a19e-6680e19141ca", 7)
    file = StagedFile(f"{write.sink}.7.1700000000000.c0ffee.0-15.frames", PLOG.random, 112)
    plan = Plan(write.sink, write.batch, (file,), (PlannedLog(1, 2, 70, 1),))

    def test_the_examples_are_what_is_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("secrets.randbits", lambda bits: self.file.id)
        writer = StagedWriter(RealDisk(tmp_path), SimulatedClock(NOW_MS), self.write.name(NOW_MS, "c0ffee", "0-15"))
        writer.add(Owner(1, 2), "events/2", Batch.of([b"hi"]))
        assert writer.finish() == self.file
        (file,) = blocks(self.text, "hex")
        assert (tmp_path / "staged" / self.file.name).read_bytes() == octets(file)
        assert [self.plan.encode()] == blocks(self.text, "plan")

    def test_the_examples_are_read_as_the_page_says(self, tmp_path: Path) -> None:
        (tmp_path / "staged").mkdir()
        (file,) = blocks(self.text, "hex")
        (tmp_path / "staged" / self.file.name).write_bytes(octets(file))
        ((owner, batch),) = staged_frames(RealDisk(tmp_path), self.file)
        assert (owner, batch.offsets, list(batch.values)) == (Owner(1, 2), range(1), [b"hi"])
        (plan,) = blocks(self.text, "plan")
        assert Plan.decode(plan) == self.plan


class TestWalData:
    text = page("docs/formats/wal-data.md")
    owner = OwnerRecord(NOBODY, 0, 0x0123456789ABCDEF, "db1:4711")

    def test_the_examples_are_what_is_written(self) -> None:
        write = encode_write(7, 0, 0, 42, 1, 2, encode_payloads([b"hello", b"hi"]))
        assert [octets(block) for block in blocks(self.text, "hex")] == [encode_owner(7, self.owner), write]

    def test_the_examples_are_read_as_the_page_says(self) -> None:
        examples = [memoryview(octets(block)) for block in blocks(self.text, "hex")]
        owner, write = (decode_record(view, 0, len(view), 7, "example", 0, verified=False) for view in examples)
        assert owner == self.owner
        assert isinstance(write, WriteRecord)
        assert write[:4] == (0, 0, 42, 1)
        assert write.payloads == [b"hello", b"hi"]

    def test_the_table_covers_the_header_without_gaps(self) -> None:
        assert covered(layout(self.text)) == HEADER_BYTES


class TestWalMeta:
    text = page("docs/formats/wal-meta.md")
    records: tuple[MetaRecord, ...] = (
        MetaOwner(0, 0x0123456789ABCDEF, "db1:4711"),
        Marks(0, [42, 43], [1, 9], [0, 1]),
        SnapshotPart(
            owner=0, number=1, part=0, parts=1, high_watermark=64, trim_target=16,
            running_count=90, writes=64, bytes=6400, forgetful=False,
            tables=[42, 43], next_sequences=[5, 10], deleted_through=[1, 9], high_watermarks=[32, DROPPED],
            pairs=[2, 0], firsts=[2, 4], offsets=[16, 31], position_offsets=[64], position_bytes=[6400],
        ),
    )  # fmt: skip

    def test_the_examples_are_what_is_written(self) -> None:
        assert [octets(block) for block in blocks(self.text, "hex")] == [encode_meta(7, each) for each in self.records]

    def test_the_examples_are_read_as_the_page_says(self) -> None:
        assert tuple(decode_meta(octets(block), 7, "example") for block in blocks(self.text, "hex")) == self.records

    def test_the_table_covers_the_header_without_gaps(self) -> None:
        assert covered(layout(self.text)) == META_HEADER_BYTES


class TestWalHoraeDb:
    text = page("docs/formats/wal-horaedb.md")

    def test_the_examples_are_read_as_the_page_says(self) -> None:
        key, snapshot_key, snapshot = (octets(block) for block in blocks(self.text, "hex"))
        codec = HoraeDbCodec()
        assert codec.decode_key(key, 42, "example", 0) == (7, 1, False)
        (known,) = codec.decode_meta(snapshot_key, snapshot, 42, "example", 0)
        assert known == Known(table=7, next_sequence=5, deleted_through=1, high_watermark=32, oldest=16)

    def test_the_table_covers_the_key_without_gaps(self) -> None:
        assert covered(layout(self.text)) == 26


class TestWalRfc:
    text = page("docs/formats/wal-rfc.md")

    def test_the_examples_are_what_is_written(self) -> None:
        examples = [octets(block) for block in blocks(self.text, "hex")]
        assert examples == [encode_key(EntryKey(7, 3, True)), encode_value(b"hi"), *encode_mark(7, 3)]

    def test_the_examples_are_read_as_the_page_says(self) -> None:
        key, value, mark_key, mark = (octets(block) for block in blocks(self.text, "hex"))
        codec = RfcCodec()
        assert codec.decode_key(key, 42, "example", 0) == (7, 3, True)
        assert bytes(codec.decode_payload(value, "example", 0)) == b"hi"
        assert codec.decode_meta(mark_key, mark, 42, "example", 0) == [Known(7, 3, 2)]

    def test_the_table_covers_the_key_without_gaps(self) -> None:
        assert covered(layout(self.text)) == 14


class TestJournalRecord:
    text = page("docs/formats/journal-record.md")
    scala = Append(1, 2, "json", "host", "10.1.0")
    ours = Append(1, 2, "json", "host", "0.1.0", id="command-42", expected=0)
    next = Append(3, 3, "json", "host", "0.1.0", id="command-43", expected=2, after="command-42")
    events = (Event.json_bytes(b'{"total":12.50}', {"paid"}), Event.empty())

    def test_the_examples_are_what_is_written(self) -> None:
        headers = [encode_header(action).decode() for action in (self.scala, self.ours, self.next)]
        payload_type, value = encode_journal_value(self.events, 1, timedelta(days=30), None)
        assert payload_type == "json"
        assert blocks(self.text, "json") == [f"{line}\n" for line in (*headers, value.decode())]
        binary = encode_journal_value([Event.binary(b"\x00\xff\x10", {"t1", "t2"})], 1, None, None)
        assert [octets(block) for block in blocks(self.text, "hex")] == [binary[1]]

    def test_the_examples_are_read_as_the_page_says(self) -> None:
        *headers, value = (block.encode() for block in blocks(self.text, "json"))
        assert [decode_header(header) for header in headers] == [self.scala, self.ours, self.next]
        read = decode_value("json", value)
        check_numbers(self.ours, read.events)
        assert [(each.kind, each.payload) for each in read.events] == [("json", '{"total":12.50}'), (None, None)]
        assert read.expire_after_ns == 30 * 86_400 * 10**9
        (binary,) = blocks(self.text, "hex")
        (event,) = decode_value("binary", octets(binary)).events
        assert (event.seq_nr, event.tags, event.payload) == (1, ("t1", "t2"), b"\x00\xff\x10")

    def test_the_page_has_every_field_of_ours_in_its_order(self) -> None:
        table = self.text.partition("Our further fields")[2].partition("A writer does not wait")[0]
        named = [row[0].strip("`") for row in rows(table)]
        full = Append(1, 1, id="a", expected=0, life="l", named="n", keep_expiry=True, after="b")
        fields = list(json.loads(encode_header(full))["append"])
        assert named == [*fields[fields.index("metadata") + 1 :], "seqNr"]

    def test_the_table_covers_the_first_bytes_without_gaps(self) -> None:
        assert covered(layout(self.text)) == 21


class TestCoordinator:
    text = page("docs/formats/coordinator.md")

    def test_the_page_shows_the_schema(self) -> None:
        (schema,) = blocks(self.text, "sql")
        assert schema == sqlite._SCHEMA.lstrip("\n")

    def test_the_format_of_a_new_database_is_the_one_of_the_page(self, tmp_path: Path) -> None:
        coordinator = SqliteCoordinator(tmp_path / "coordinator.db")
        (version,) = coordinator._db.execute("PRAGMA user_version").fetchone()
        tables = [row[0] for row in coordinator._db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE%'")]
        coordinator.close()
        assert self.text.startswith(f"# The coordinator's database, format {version}\n")
        assert {row[0].strip("`") for row in rows(self.text)} == {table for table in tables if "sqlite" not in table}

    def test_the_stamp_is_the_sum_that_the_page_describes(self, tmp_path: Path) -> None:
        coordinator = SqliteCoordinator(tmp_path / "coordinator.db")
        topic = coordinator.create_topic("events", TopicConfig(partitions=2, retention_bytes=10))
        coordinator.trim(topic.id, 1, 5, 8)
        coordinator.finish("query", 7)
        coordinator.decide("a plan")
        stamp = coordinator.stamp()
        everything: list[list[int | str | None]] = [
            ["topic", *asdict(topic).values()],
            ["log", topic.id, 1, 5, 8],
            ["plan", 1],
            ["sink", "query", 7],
            ["owner", 1, 0, None],
            ["sqlite_sequence", "topic", topic.id],
        ]
        schema = coordinator._db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        coordinator.close()
        digest = 0
        for row in [*everything, *(["sqlite_master", *object] for object in schema)]:
            hashed = hashlib.blake2b(json.dumps(row).encode(), digest_size=8).digest()
            digest ^= int.from_bytes(hashed, "little", signed=True)
        assert stamp == (5, 4, digest)


class TestJournalSqlite:
    text = page("docs/formats/journal-sqlite.md")
    life = "6b29fc40-ca47-1067-b31d-00dd010662da"
    head = HeadRow(0, 7, 10_000, 2, NOW_MS, NOW_MS, life=life, origin="host")
    metadata = '{"header":{},"payload":{}}'
    rows = (
        EventRow(1, NOW_MS, 0, 7, "host", "1.0", life, metadata, "json", '{"n":1}', tags=("paid",)),
        EventRow(2, NOW_MS, 0, 7, "host", "1.0", life, metadata, "text", "hi"),
    )

    def written(self, path: Path) -> sqlite3.Connection:
        db = schema.prepare_for_writing(path, 5)
        changes = [KeyChanges("order-1", self.head, self.rows)]
        assert writing.write(db, PartitionChanges("orders", 0, None, 7, changes), NOW_MS + 500)
        return db

    def test_the_page_shows_the_tables(self) -> None:
        (shown,) = blocks(self.text, "sql")
        assert shown == "".join(step.lstrip("\n") for step in schema.STEPS)

    def test_a_new_store_has_the_version_and_the_tables_of_the_page(self, tmp_path: Path) -> None:
        with closing(self.written(tmp_path / "store.db")) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            (application,) = db.execute("PRAGMA application_id").fetchone()
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert self.text.startswith(f"# The SQLite store of journals, schema version {version}\n")
        assert f"`{application:#x}`" in self.text
        assert {row[0].strip("`") for row in rows(self.text) if len(row) == 3} == tables

    def test_the_example_is_what_is_written(self, tmp_path: Path) -> None:
        (shown,) = blocks(self.text, "rows")
        with closing(self.written(tmp_path / "store.db")) as db:
            lines = [
                "|".join([table, *("" if value is None else str(value) for value in row)])
                for table in ("journal", "metajournal", "pointer2")
                for row in db.execute(f"SELECT * FROM {table}")
            ]
        assert lines == shown.splitlines()

    def test_the_example_is_read_as_the_page_says(self, tmp_path: Path) -> None:
        (shown,) = blocks(self.text, "rows")
        with closing(schema.prepare_for_writing(tmp_path / "store.db", 5)) as db:
            for line in shown.splitlines():
                table, *values = line.split("|")
                places = ", ".join("?" * len(values))
                db.execute(f"INSERT INTO {table} VALUES ({places})", [value or None for value in values])
            assert reading.pointers(db, "orders") == {0: 7}
            assert reading.heads(db, "orders", ["order-1"]) == {"order-1": self.head}
            assert reading.events(db, "orders", "order-1", 1, 3, 1 << 20).rows == list(self.rows)


def covered(places: list[tuple[int, int]]) -> int:
    """Where a layout ends that begins at 0 and has no gaps."""
    end = 0
    for at, size in places:
        assert at == end
        end += size
    return end


class TestArchive:
    text = page("docs/formats/archive.md")
    ranges = (
        ArchivedRange(0, 0, 1000, 1000, 998, "8f14e45fceea167a00000ae2d5c1b7f3"),
        ArchivedRange(1, 400, 450, 50, 50, "c9f0f895fb98ab910000001b5a7d20e4"),
    )
    manifest = Manifest("r1700000000000-c0ffee0123456789", "orders", "7", NOW_MS, ranges)

    def test_the_example_is_what_is_written(self) -> None:
        assert blocks(self.text, "manifest") == [encode_manifest(self.manifest) + "\n"]

    def test_the_example_is_read_and_a_changed_one_refused(self) -> None:
        (line,) = (block.rstrip() for block in blocks(self.text, "manifest"))
        read = decode_manifest(line)
        assert (read.run, read.topic, read.topic_id, tuple(read.ranges)) == (
            "r1700000000000-c0ffee0123456789",
            "orders",
            "7",
            self.ranges,
        )
        with pytest.raises(InvalidInput, match="version 2; this Cordwood knows version 1"):
            decode_manifest(line.replace(" 1 ", " 2 ", 1))
        for damaged in ("", line[:200], line.replace("orders", "others"), "cordwood-archive 1 8e099d82"):
            with pytest.raises(Corrupt):
                decode_manifest(damaged)

    def test_the_tables_name_every_column_and_key(self) -> None:
        named = [name.strip("`") for row in rows(self.text) for name in row[0].split(", ")]
        columns = [name for name in spark_schema(include_headers=True).names if name not in ("topic", "partition")]
        assert named == [*columns, *Manifest.__struct_fields__]
        assert all(f"`{name}`" in self.text for name in ArchivedRange.__struct_fields__)

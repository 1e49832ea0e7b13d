"""The statements of a store on Cassandra, for one keyspace. Pure text.

Times leave as milliseconds and record ids as texts: nodes convert them faster than Python does.
"""

from typing import Final

EVENT: Final = (
    "seq_nr, toUnixTimestamp(timestamp), partition, offset, origin, version, CAST(meta_record_id AS text), metadata,"
    " payload_type, payload_txt, payload_bin, tags, headers"
)
"""The columns of an event row, in the order of `EventRow`."""

HEAD: Final = (
    "id, partition, offset, segment_size, seq_nr, toUnixTimestamp(created), toUnixTimestamp(updated), delete_to,"
    " CAST(record_id AS text), expire_after, expire_on, origin, metadata"
)
LETTER: Final = "partition, offset, through, id, reason, timestamp, key, header, value, skipped"


class Statements:
    """All statements on the tables of a keyspace."""

    def __init__(self, keyspace: str) -> None:
        at = f'"{keyspace}".'
        journal, metajournal = f"{at}journal", f"{at}metajournal"
        pointer2, setting = f"{at}pointer2", f"{at}setting"
        snapshot, letter = f"{at}cordwood_snapshot", f"{at}cordwood_dead_letter"
        lease = f"{at}cordwood_lease"
        of_head = "WHERE topic = ? AND segment = ? AND id = ?"
        of_part = "WHERE id = ? AND topic = ? AND segment = ?"

        # --- settings and pointers
        self.setting = f"SELECT value FROM {setting} WHERE key = ?"
        self.settings = f"SELECT key, value FROM {setting}"
        self.put_setting_once = f"INSERT INTO {setting} (key, value, timestamp) VALUES (?, ?, ?) IF NOT EXISTS"
        self.replace_setting = f"UPDATE {setting} SET value = ?, timestamp = ? WHERE key = ? IF value = ?"
        self.put_setting_at = f"INSERT INTO {setting} (key, value, timestamp) VALUES (?, ?, ?) USING TIMESTAMP ?"
        self.pointer = f"SELECT offset FROM {pointer2} WHERE topic = ? AND partition = ?"
        self.pointers = f"SELECT topic, partition, offset, toUnixTimestamp(updated) FROM {pointer2}"
        self.put_first_pointer = (
            f"INSERT INTO {pointer2} (topic, partition, offset, created, updated) VALUES (?, ?, ?, ?, ?)"
            " USING TIMESTAMP ?"
        )
        self.put_pointer = (
            f"UPDATE {pointer2} USING TIMESTAMP ? SET offset = ?, updated = ? WHERE topic = ? AND partition = ?"
        )

        # --- head rows
        self.head = f"SELECT {HEAD} FROM {metajournal} {of_head}"
        self.heads_of_segment = f"SELECT {HEAD} FROM {metajournal} WHERE topic = ? AND segment = ?"
        self.heads_of_day = (
            f"SELECT {HEAD}, segment FROM {metajournal} WHERE topic = ? AND expire_on = ? ALLOW FILTERING"
        )
        self.segments = f"SELECT DISTINCT topic, segment FROM {metajournal}"
        self.put_head = (
            f"INSERT INTO {metajournal} (topic, segment, id, partition, offset, segment_size, seq_nr, delete_to,"
            " created, created_date, updated, expire_after, expire_on, record_id, origin, metadata)"
            f" VALUES ({', '.join('?' * 16)}) USING TIMESTAMP ?"
        )
        self.hide_events = f"UPDATE {metajournal} USING TIMESTAMP ? SET delete_to = ? {of_head}"
        self.delete_head = f"DELETE FROM {metajournal} USING TIMESTAMP ? {of_head}"

        # --- event rows
        self.events = f"SELECT {EVENT} FROM {journal} {of_part} AND seq_nr >= ? AND seq_nr <= ?"
        self.event_parts = f"SELECT DISTINCT id, topic, segment FROM {journal} WHERE topic = ? ALLOW FILTERING"
        self.parts_with_events = (
            f"SELECT segment FROM {journal} WHERE id = ? AND topic = ? AND segment IN ? PER PARTITION LIMIT 1"
        )
        self.put_event = (
            f"INSERT INTO {journal} (id, topic, segment, seq_nr, timestamp, partition, offset, origin, version,"
            " meta_record_id, metadata, payload_type, payload_txt, payload_bin, tags, headers)"
            f" VALUES ({', '.join('?' * 16)}) USING TIMESTAMP ?"
        )
        self.delete_segment = f"DELETE FROM {journal} USING TIMESTAMP ? {of_part}"
        self.delete_through = f"DELETE FROM {journal} USING TIMESTAMP ? {of_part} AND seq_nr <= ?"

        # --- snapshots
        self.snapshots = (
            "SELECT life, seq_nr, saved, offset, toUnixTimestamp(timestamp), payload, metadata"
            f" FROM {snapshot} WHERE topic = ? AND id = ?"
        )
        self.snapshot_keys = f"SELECT life, seq_nr, saved, offset FROM {snapshot} WHERE topic = ? AND id = ?"
        self.put_snapshot = (
            f"INSERT INTO {snapshot} (topic, id, life, seq_nr, saved, partition, offset, timestamp, payload, metadata)"
            f" VALUES ({', '.join('?' * 10)}) USING TIMESTAMP ?"
        )
        self.delete_snapshot = (
            f"DELETE FROM {snapshot} USING TIMESTAMP ?"
            " WHERE topic = ? AND id = ? AND life = ? AND seq_nr = ? AND saved = ?"
        )
        self.saves_of_number = f"SELECT saved FROM {snapshot} WHERE topic = ? AND id = ? AND life = ? AND seq_nr = ?"
        of_life = f"DELETE FROM {snapshot} USING TIMESTAMP ? WHERE topic = ? AND id = ? AND life = ?"
        self.delete_snapshots_of_life = of_life
        self.delete_snapshots_below = f"{of_life} AND seq_nr < ?"
        self.delete_saves_before = f"{of_life} AND seq_nr = ? AND saved < ?"
        self.delete_snapshots = f"DELETE FROM {snapshot} USING TIMESTAMP ? WHERE topic = ? AND id = ?"

        # --- dead letters
        self.letter_parts = f"SELECT DISTINCT topic, partition FROM {letter}"
        self.letters = f"SELECT {LETTER} FROM {letter} WHERE topic = ? AND partition = ?"
        self.letters_of_key = f"SELECT offset, skipped FROM {letter} WHERE topic = ? AND partition = ? AND id = ?"
        self.letter = f"SELECT {LETTER} FROM {letter} WHERE topic = ? AND partition = ? AND offset = ? ALLOW FILTERING"
        self.put_letter = (
            f"INSERT INTO {letter} (topic, partition, id, offset, through, reason, timestamp, key, header, value)"
            f" VALUES ({', '.join('?' * 10)}) USING TIMESTAMP ?"
        )
        self.skip_letter = (
            f"UPDATE {letter} USING TIMESTAMP ? SET skipped = ?"
            " WHERE topic = ? AND partition = ? AND id = ? AND offset = ?"
        )
        self.delete_letters = f"DELETE FROM {letter} USING TIMESTAMP ? WHERE topic = ? AND partition = ? AND id = ?"

        # --- leases
        of_lease = "WHERE topic = ? AND partition = ?"
        self.leases = f"SELECT partition, owner, until FROM {lease} WHERE topic = ?"
        self.take_lease = (
            f"INSERT INTO {lease} (topic, partition, owner, until) VALUES (?, ?, ?, ?) IF NOT EXISTS USING TTL ?"
        )
        self.renew_lease = f"UPDATE {lease} USING TTL ? SET owner = ?, until = ? {of_lease} IF owner = ?"
        self.release_lease = f"DELETE FROM {lease} {of_lease} IF owner = ?"

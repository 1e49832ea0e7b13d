"""Stored records as typed rows: `actions` of journals, `wal_records` of regions.

The rows come from any frame with Kafka's columns, batch or stream. They say what was written, not what counts.
`wal_records` and `actions` decode, `payloads` makes a column of many writes, `input` checks the frame. Imports pyspark.
"""

"""Copies of topics: to another engine, or with other partitions.

`records` rewrites what names a place, `order` compares the order of keys on both sides, `progress` is the note of a
copy under way, and `run` is `pipeline.copy`. Imports pyspark.
"""

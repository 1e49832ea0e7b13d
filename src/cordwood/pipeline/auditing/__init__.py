"""Audits: a journal topic against its store, and a region against its own state.

`findings` has the kinds of findings. `store_side` scans the store, `key` folds the records of a key again and compares
them with its rows (pure), `task` runs that in a worker, and `run` is `pipeline.audit`. `region` is
`pipeline.audit_region`. Imports pyspark.
"""

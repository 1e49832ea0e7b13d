"""The events of all journals as rows: those that `journal.read` gives.

`look` fixes the pointers of the store and the ends of the logs. `source` scans the store, `head` folds the records that
the store did not have, and `rows` makes Arrow batches of events. `frame` puts it together. Imports pyspark.
"""

"""Replicating journals by Spark: `pipeline.replicate`, `pipeline.catch_up`, and what is seen of them.

Spark carries no records: a row is a range of one log. The task that gets it reads the log, folds, and writes to the
store, as the replicator of a journal does. Where it begins is decided by the store's pointer, not by Spark. It may
import the journal and the store.
"""

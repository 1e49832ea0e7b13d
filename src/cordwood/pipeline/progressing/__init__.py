"""The progress of Spark's jobs and queries: what a terminal shows, and the metrics of replicators.

The display alone uses Spark's context, which Spark Connect does not have; there it shows the time.
"""

"""Reading logs on Spark.

`options` has what the user asked for, `reader` is a batch and `stream` a stream (with `position` and `share`),
`planning` decides for both which records each task reads (`plan`), `rows` makes frames Arrow batches, `schema` has the
columns. `logs` is the interface of an engine; `folder` and `kafka` implement it. Imports pyspark.
"""

"""Reading logs on Spark.

`options` checks the user's options. `reader` is a batch read, and `stream` a stream (with `position` and `share`).
`planning` decides for both which records each task reads (`plan`), `rows` turns frames into Arrow batches, and `schema`
has the columns. `logs` is the interface of an engine; `folder` and `kafka` implement it. Imports pyspark.
"""

"""Archives: the records of a topic in Parquet files, which count by the manifests of verified runs.

`manifest` is the text that makes a run count, and `coverage` says which run has which offsets (both pure). `folder` is
the archive as Spark reads and writes it, `digests` compares two copies of the same records, `run` is
`pipeline.archive`, and `reading` is `pipeline.read(archive=…)`. Imports pyspark.
"""

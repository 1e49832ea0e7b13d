"""The entries of a region as rows: those that `region.recover` gives.

`source` plans the read and runs it. `region` reads the state, `ranges` divides the data log and the tables (pure),
`task` decides which writes of a range count, and `rows` makes Arrow batches of them. `frame` puts it together. Imports
pyspark.
"""

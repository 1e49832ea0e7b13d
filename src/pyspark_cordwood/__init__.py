"""Lets Spark find `format("cordwood")` by itself: it looks for a `DefaultSource` in every package `pyspark_*`."""

from cordwood.pipeline.datasource import CordwoodSource as DefaultSource

__all__ = ["DefaultSource"]

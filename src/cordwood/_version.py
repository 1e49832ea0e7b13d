"""The version, in the one place that the package, the command and the build take it from."""

__version__ = "0.1.0"

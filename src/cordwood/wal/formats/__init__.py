"""The formats of a region, one for each `codec=`, and their common interface."""

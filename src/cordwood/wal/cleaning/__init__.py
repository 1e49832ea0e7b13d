"""Cleaning a region: snapshot, decide, make the snapshot durable, trim."""

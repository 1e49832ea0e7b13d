"""The format `cordwood`: one record per write, owner records, marks and snapshots."""

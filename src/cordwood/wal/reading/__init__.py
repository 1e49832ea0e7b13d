"""Reading a region: replay, single tables, recovery."""

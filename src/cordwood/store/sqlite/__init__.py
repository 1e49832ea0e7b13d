"""The store in one SQLite file.

`schema` has the tables, `session` the connections and threads, `errors` the one translation of SQLite's errors,
`reading` and `writing` the statements, and `store` the `EventStore`. Only `session` knows event loops.
"""

from .store import SqliteStore, open_sqlite

__all__ = ["SqliteStore", "open_sqlite"]

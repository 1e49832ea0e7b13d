"""One folder of logs: one writing process, and readers alongside it."""

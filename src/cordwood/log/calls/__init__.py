"""The parts of a call on every engine: a deadline, an outcome, threads, and a caller that waits in its event loop."""

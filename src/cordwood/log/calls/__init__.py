"""What a call has, whatever its engine: a deadline, an outcome, threads, and a caller that waits in its event loop."""

"""Reading a stream: frames out of plogs, in the order of the log."""

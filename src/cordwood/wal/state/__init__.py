"""The state that follows from the records of a region: tables, and which writes count. Pure: no I/O, no event loop."""

"""What follows from the records of a region: its tables, and which writes count. Pure: no I/O, no event loop."""

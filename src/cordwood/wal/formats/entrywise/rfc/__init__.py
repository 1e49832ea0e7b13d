"""The format `rfc`: the records of the proposal, read and written."""

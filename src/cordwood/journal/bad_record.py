"""The error of a record that cannot be decoded: it closes its key (R43)."""


class BadRecord(ValueError):
    """A record has a `journal.action` header, but its header or value cannot be decoded. The text is the reason."""

"""The error of a record that cannot be decoded: it closes its key (R43)."""


class BadRecord(ValueError):
    """A record has a `journal.action` header, but its header or value cannot be decoded. The text is the reason."""


UNDECODABLE = (ValueError, ArithmeticError, RecursionError)
"""Decoding foreign bytes raises these, from the codecs below us too: such as decimal's errors, which are no ValueError.

Whatever decodes a header or a value turns them into `BadRecord`, since one of another kind would stop the replicator.
"""


def reason_of(error: Exception) -> str:
    """Why bytes cannot be decoded, in words; decimal's errors have none.

    >>> reason_of(OverflowError())
    'a number has too many digits, or too large an exponent'
    """
    return (
        "a number has too many digits, or too large an exponent" if isinstance(error, ArithmeticError) else str(error)
    )

"""All errors of public calls, besides TypeError for a wrong Python type and cancellation.

A message names the subject, the value and the limit, and a remedy; the cause is chained. Everything that a program
needs in order to act is an attribute, so that no program has to match on text. All of it survives pickling and copying,
since errors cross process borders; only the chained cause is lost, as with any exception.
"""

import errno
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

Outcome = Literal["not_written", "unknown"]

Reason = Literal[
    "busy",
    "full",
    "permission",
    "missing-extra",
    "missing-java",
    "unsupported",
    "closed",
    "forked",
    "other-loop",
    "read-only",
    "unreachable",
    "version",
    "tls",
    "failed",
]
"""Why something is `Unavailable`; docs/operating.md has a line for each."""

_PASSING: frozenset[Reason] = frozenset({"busy", "full", "unreachable", "failed"})
"""Reasons that may pass while the program only waits."""


class CordwoodError(Exception):
    """The base of every error of Cordwood.

    `outcome` is set on a write that failed: `"not_written"` (safe to repeat) or `"unknown"` (it may be durable already,
    or become so). If one call writes to several places, `written` maps each place that succeeded to its numbers.
    `unknown` maps each place that may have succeeded to its numbers, or to its own error if it has none.

    >>> error = CordwoodError("append to events/0 failed: the disk is full", outcome="not_written")
    >>> if error.outcome == "not_written":
    ...     print("free some space and repeat")
    free some space and repeat
    """

    _passing: ClassVar[bool] = False

    outcome: Outcome | None
    written: Mapping[Any, Any] | None
    unknown: Mapping[Any, Any] | None

    def __init__(
        self,
        message: str,
        *,
        outcome: Outcome | None = None,
        written: Mapping[Any, Any] | None = None,
        unknown: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.written = written
        self.unknown = unknown

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later, unchanged, and cannot write anything twice.

        >>> Timeout("the disk did not answer").retryable, Timeout("no ack came", outcome="unknown").retryable
        (True, False)
        """
        return self._passing and self.outcome != "unknown"

    # The inherited one calls the class with `args` alone, which fails on required keywords.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args), self.__dict__

    @classmethod
    def _blank(cls, args: tuple[Any, ...]) -> Self:
        error = cls.__new__(cls, *args)
        error.args = args  # OSError, a base of Timeout, leaves this to the __init__ that is not called here
        return error


class InvalidInput(CordwoodError, ValueError):
    """An argument is outside of the call's limits; nothing was done.

    >>> raise InvalidInput("topic name 'a/b' has a '/': use letters, digits, '.', '_' and '-' only")
    Traceback (most recent call last):
    cordwood.errors.InvalidInput: topic name 'a/b' has a '/': use letters, digits, '.', '_' and '-' only
    """


class NotFound(CordwoodError, LookupError):
    """The topic, log or other object of the call does not exist.

    >>> raise NotFound("topic 'events' does not exist: create it with create_topic('events')")
    Traceback (most recent call last):
    cordwood.errors.NotFound: topic 'events' does not exist: create it with create_topic('events')
    """


class Conflict(CordwoodError):
    """Another caller was first: the state that the call expected no longer holds.

    `actual` is the value found instead of the expected one. `winner` is the id of the write that got there first; the
    caller's own id means that an earlier try succeeded. Either is None if it has no meaning.

    >>> error = Conflict("journal 'order-1' is at 4, not at 2: read on from 3 and decide again", actual=4)
    >>> error.actual
    4
    """

    actual: int | None
    winner: str | None

    def __init__(
        self,
        message: str,
        *,
        actual: int | None = None,
        winner: str | None = None,
        outcome: Outcome | None = None,
        written: Mapping[Any, Any] | None = None,
        unknown: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, written=written, unknown=unknown)
        self.actual = actual
        self.winner = winner


class Fenced(CordwoodError):
    """Another owner has taken over; this object can never write again.

    >>> raise Fenced("region 7 was opened by another owner (epoch 3 > 2): open it again to take it back")
    Traceback (most recent call last):
    cordwood.errors.Fenced: region 7 was opened by another owner (epoch 3 > 2): open it again to take it back
    """


class Sealed(CordwoodError):
    """The file or log was closed for good; appends go to its successor.

    >>> raise Sealed("plog 12 is sealed at byte 4096: append to the last plog", outcome="not_written")
    Traceback (most recent call last):
    cordwood.errors.Sealed: plog 12 is sealed at byte 4096: append to the last plog
    """

    _passing = True


class Trimmed(CordwoodError):
    """The requested offset was trimmed; `start` is the first offset that is still kept.

    >>> error = Trimmed("events/0 was trimmed before 100, and offset 7 asked for: read from 100", start=100)
    >>> error.start
    100
    """

    start: int

    def __init__(self, message: str, *, start: int, outcome: Outcome | None = None) -> None:
        super().__init__(message, outcome=outcome)
        self.start = start


class TooLarge(CordwoodError):
    """A batch or record is over the limit; nothing was written.

    >>> raise TooLarge("batch of 3,000,000 bytes is over 2,097,152: split it", outcome="not_written")
    Traceback (most recent call last):
    cordwood.errors.TooLarge: batch of 3,000,000 bytes is over 2,097,152: split it
    """


class Corrupt(CordwoodError):
    """Stored bytes differ from those that were written: a checksum or a format is wrong.

    >>> raise Corrupt("plog 12 at byte 8192: CRC is 0x1f, not 0x2e: restore a copy, or trim past it")
    Traceback (most recent call last):
    cordwood.errors.Corrupt: plog 12 at byte 8192: CRC is 0x1f, not 0x2e: restore a copy, or trim past it
    """


class Unavailable(CordwoodError):
    """It cannot be done here or now: the folder has another writer, a server is away, the object is closed.

    `reason` is one word for it. For a `"busy"` folder, `pid` is the process that writes it, if that is known.

    >>> error = Unavailable("the folder is written by process 4711: stop it, or wait", reason="busy", pid=4711)
    >>> error.reason, error.pid, error.retryable
    ('busy', 4711, True)
    """

    reason: Reason
    pid: int | None

    def __init__(
        self,
        message: str,
        *,
        reason: Reason,
        pid: int | None = None,
        outcome: Outcome | None = None,
        written: Mapping[Any, Any] | None = None,
        unknown: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(message, outcome=outcome, written=written, unknown=unknown)
        self.reason = reason
        self.pid = pid

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later: by the reason, and never if a write may have succeeded.

        >>> Unavailable("no room", reason="full", outcome="not_written").retryable
        True
        """
        return self.reason in _PASSING and self.outcome != "unknown"


class Timeout(CordwoodError, TimeoutError):
    """The call exceeded its time; for a write, `outcome` tells whether it may still become durable.

    >>> error = Timeout("append to events/0 took more than 30 s: read its end to see", outcome="unknown")
    >>> isinstance(error, TimeoutError), error.outcome
    (True, 'unknown')
    """

    _passing = True


_OF_ERRNO: Mapping[int, Reason] = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
}


def reason_of(error: BaseException | None) -> Reason:
    """The reason of an `Unavailable` that is raised because of this error.

    >>> reason_of(OSError(errno.ENOSPC, "No space left on device")), reason_of(RuntimeError("can't start new thread"))
    ('full', 'failed')
    """
    if isinstance(error, Unavailable):
        return error.reason
    if isinstance(error, OSError):
        return _OF_ERRNO.get(error.errno or 0, "failed")
    return "failed"


def _restore(cls: type[CordwoodError], args: tuple[Any, ...]) -> CordwoodError:
    return cls._blank(args)

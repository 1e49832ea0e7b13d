"""Promises: class attributes of a suite that say what its subject keeps."""

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def promised(promise: str) -> Callable[[Test], Test]:
    """Mark a test that only holds where the class attribute `promise` is true; other classes do not have it.

    ```python
    @promised("dense")
    async def test_offsets_follow_each_other(self, log: Log) -> None: ...
    ```
    """

    def mark(test: Test) -> Test:
        test.promise = promise  # type: ignore[attr-defined]  # read by Promises alone
        return test

    return mark


class Promises:
    """A subclass that does not keep a promise does not have its tests at all; they are not skipped."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in dir(cls):
            promise = getattr(getattr(cls, name), "promise", None)
            if promise is not None and not getattr(cls, promise):
                setattr(cls, name, None)

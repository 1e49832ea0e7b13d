"""Fatal errors of the client library, raised by its own hook for tests, which Python has no call for."""

import ctypes
from pathlib import Path

from confluent_kafka import KafkaError, Producer

_HANDLE_AT = 2 * ctypes.sizeof(ctypes.c_void_p)  # behind the head of every Python object


def raise_fatal(producer: Producer) -> None:
    """The producer fails for good, as after an answer that breaks the promise of writing once."""
    # No other thread runs Python meanwhile: a thread that sees the error closes the producer while we use it.
    library = ctypes.PyDLL(_loaded("librdkafka"))
    hook = library.rd_kafka_test_fatal_error
    hook.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    handle = ctypes.c_void_p.from_address(id(producer) + _HANDLE_AT)
    assert hook(handle, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"by a test") == 0


def _loaded(name: str) -> str:
    """The file of a library that this process has loaded already."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith(name):
            return path
    raise AssertionError(f"{name} is not loaded")

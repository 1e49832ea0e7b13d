"""Time, as the engine is given it."""

import time
from typing import Protocol


class Clock(Protocol):
    def time_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that are stored. It may jump, also backwards."""
        ...

    def monotonic(self) -> float:
        """Seconds since any fixed moment, for durations. It never goes backwards."""
        ...


class RealClock:
    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

"""A clock that stands still until it is told to go on."""


class SimulatedClock:
    """Both times move together; `time_ms` may also be set, as an administrator would, also backwards."""

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = time_ms
        self.now = 1000.0

    def time_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.now_ms += round(seconds * 1000)

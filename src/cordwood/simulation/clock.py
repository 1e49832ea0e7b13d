"""A clock that moves only when a test advances it."""


class SimulatedClock:
    """Both times move together; a test may also set `time_ms`, even backwards, as an administrator would."""

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

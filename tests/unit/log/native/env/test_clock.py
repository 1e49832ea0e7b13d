from cordwood.log.native.env.clock import Clock, RealClock


def test_the_clock_tells_milliseconds_and_never_runs_backwards() -> None:
    clock: Clock = RealClock()
    assert 1_700_000_000_000 < clock.time_ms() < 10_000_000_000_000
    moments = [clock.monotonic() for _ in range(100)]
    assert moments == sorted(moments)

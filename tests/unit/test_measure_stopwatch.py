"""How time is taken: plans, samples, GPU events on a clock of our own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.measure.stopwatch import SAMPLE_S, SAMPLES, EventClock, HostClock, Stopwatch, Timing, plan


class FakeGpu:
    """torch.cuda with a clock that only work moves: a call takes 40 µs, a spin one nanosecond a cycle."""

    def __init__(self) -> None:
        self.now_s, self.spins, self.calls = 0.0, [], []

    def Event(self, *, enable_timing: bool) -> FakeEvent:
        assert enable_timing
        return FakeEvent(self)

    def _sleep(self, cycles: int) -> None:
        self.spins.append(cycles)
        self.now_s += cycles * 1e-9

    def synchronize(self) -> None:
        pass

    def work(self, call: int) -> None:
        self.calls.append(call)
        self.now_s += 40e-6


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.at_s = self.gpu.now_s

    def elapsed_time(self, other: FakeEvent) -> float:
        return (other.at_s - self.at_s) * 1e3


@given(st.floats(1e-7, 10.0), st.floats(0.01, 60.0))
def test_a_plan_measures_enough_and_ends(estimate_s: float, seconds: float) -> None:
    planned = plan(estimate_s, seconds)
    fewest, most = SAMPLES
    assert fewest <= planned.samples <= most
    assert planned.calls * estimate_s >= min(SAMPLE_S, 2000 * estimate_s) * (1 - 1e-9)
    # At most the time asked for, or what the fewest samples and one call too many of each kind cost.
    spent = (planned.warm_calls + planned.calls * planned.samples) * estimate_s
    assert spent <= seconds + 2 * estimate_s + fewest * (SAMPLE_S + estimate_s)
    assert plan(estimate_s, seconds) == planned


def test_short_kernels_are_held_back_until_the_host_has_queued_them() -> None:
    assert plan(20e-6, 1.0).hold_s == pytest.approx(SAMPLE_S)
    assert plan(200e-6, 1.0).hold_s == 0.0


def test_events_time_the_calls_and_not_the_spin_before_them() -> None:
    gpu = FakeGpu()
    timing = Stopwatch(EventClock(gpu), seconds=0.1).time(gpu.work)
    assert timing.median_s == pytest.approx(40e-6)
    assert timing.spread == pytest.approx(0.0, abs=1e-9)
    calibration, samples = gpu.spins[:2], gpu.spins[2:]
    assert calibration == [1_000_000, 1_000_000]
    assert len(samples) == len(timing.samples_s)
    assert samples[0] * 1e-9 == pytest.approx(SAMPLE_S, rel=0.01)


def test_calls_are_counted_on_so_that_operands_rotate() -> None:
    gpu = FakeGpu()
    EventClock(gpu).run(gpu.work, calls=3, samples=2, hold_s=0.0)
    assert gpu.calls == [0, 1, 2, 3, 4, 5]
    seen: list[int] = []
    assert len(HostClock().run(seen.append, 3, 2, 1.0)) == 2
    assert seen == gpu.calls


def test_ranks_follow_the_agreed_estimate_not_their_own() -> None:
    gpu, peer = FakeGpu(), FakeGpu()
    Stopwatch(EventClock(gpu), 0.1, agree=lambda own_s: 10 * own_s).time(gpu.work)
    assert not gpu.spins  # by its own 40 µs it would have been held back
    Stopwatch(EventClock(peer), 0.1, agree=lambda own_s: 400e-6).time(peer.work)
    planned = plan(400e-6, 0.1)
    assert len(peer.calls) == 1 + 3 + planned.warm_calls + planned.calls * planned.samples


def test_median_and_spread() -> None:
    timing = Timing((1.0, 2.0, 3.0, 4.0, 100.0))
    assert (timing.median_s, timing.min_s, timing.max_s, timing.mean_s) == (3.0, 1.0, 100.0, 22.0)
    assert timing.spread == pytest.approx((4.0 - 2.0) / 3.0)

"""How long one call takes: warm-up, then samples of several calls each, their median and spread."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sim.measure.device import Device

Call = Callable[[int], object]
"""Does the work once. The argument counts calls, so that operands can rotate."""

SAMPLE_S = 2e-3  # a sample is at least this long, far above the resolution of events (about 1 µs)
WARM_SHARE = 0.2  # of the time of a point: clocks settle under load
SAMPLES = (5, 400)
MOST_CALLS = 2000  # of one sample or of the warm-up
TRIAL_CALLS = 3

# Below this a GPU may wait for the host to launch (a torch operator costs 5 to 20 µs); a spin kernel then holds
# the device back until the sample is queued.
LAUNCH_BOUND_S = 100e-6


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one figure for each sample."""

    samples_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.samples_s)

    @property
    def mean_s(self) -> float:
        return statistics.fmean(self.samples_s)

    @property
    def min_s(self) -> float:
        return min(self.samples_s)

    @property
    def max_s(self) -> float:
        return max(self.samples_s)

    @property
    def spread(self) -> float:
        """Interquartile range over the median."""
        low, _, high = statistics.quantiles(self.samples_s, n=4, method="inclusive")
        return (high - low) / self.median_s


@dataclass(frozen=True)
class Plan:
    warm_calls: int
    calls: int  # of one sample
    samples: int
    hold_s: float  # what the device is held back before each sample


def plan(estimate_s: float, seconds: float) -> Plan:
    """Spends about ``seconds`` on calls that take ``estimate_s`` each.

    Equal arguments give equal plans: ranks of one collective must agree on the number of calls.
    """
    estimate_s = max(estimate_s, 1e-7)
    fewest, most = SAMPLES
    calls = min(MOST_CALLS, max(1, math.ceil(SAMPLE_S / estimate_s)))
    left = (1.0 - WARM_SHARE) * seconds / (estimate_s * calls)
    return Plan(
        warm_calls=min(MOST_CALLS, math.ceil(WARM_SHARE * seconds / estimate_s)),
        calls=calls,
        samples=min(most, max(fewest, math.floor(left))),
        hold_s=calls * estimate_s if estimate_s < LAUNCH_BOUND_S else 0.0,
    )


class Clock(Protocol):
    def run(self, call: Call, calls: int, samples: int, hold_s: float) -> list[float]:
        """Seconds per call of each sample, ``calls`` calls in one. Ends with the device idle."""
        ...


class HostClock:
    """For work that is done when the call returns: the CPU."""

    def run(self, call: Call, calls: int, samples: int, hold_s: float) -> list[float]:
        del hold_s  # nothing is queued
        taken = []
        for sample in range(samples):
            start = time.perf_counter()
            for i in range(calls):
                call(sample * calls + i)
            taken.append((time.perf_counter() - start) / calls)
        return taken


class EventClock:
    """GPU events around each sample. All samples are queued without a wait, so the load never pauses."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda  # torch.cuda
        self._cycles_per_s = 0.0

    def run(self, call: Call, calls: int, samples: int, hold_s: float) -> list[float]:
        marks = []
        for sample in range(samples):
            if hold_s > 0:
                self._spin(hold_s)
            start = self._mark()
            for i in range(calls):
                call(sample * calls + i)
            marks.append((start, self._mark()))
        self._cuda.synchronize()
        return [start.elapsed_time(end) * 1e-3 / calls for start, end in marks]

    def _mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def _spin(self, seconds: float) -> None:
        """torch's own spin kernel counts cycles of a clock that differs by GPU, so it is timed once."""
        sleep = getattr(self._cuda, "_sleep", None)
        if sleep is None:
            return
        if not self._cycles_per_s:
            cycles = 1_000_000
            sleep(cycles)  # the first launch loads the kernel
            self._cuda.synchronize()
            start = self._mark()
            sleep(cycles)
            end = self._mark()
            self._cuda.synchronize()
            self._cycles_per_s = cycles / (start.elapsed_time(end) * 1e-3)
        sleep(int(seconds * self._cycles_per_s))


def _alone(estimate_s: float) -> float:
    return estimate_s


@dataclass(frozen=True)
class Stopwatch:
    """Times calls for about ``seconds`` each. ``agree`` turns this rank's estimate into that of all ranks."""

    clock: Clock
    seconds: float
    agree: Callable[[float], float] = field(default=_alone)

    def time(self, call: Call) -> Timing:
        self.clock.run(call, 1, 1, 0.0)  # loads kernels, fills allocators
        planned = plan(self.agree(self.clock.run(call, TRIAL_CALLS, 1, 0.0)[0]), self.seconds)
        if planned.warm_calls:
            self.clock.run(call, planned.warm_calls, 1, 0.0)
        return Timing(tuple(self.clock.run(call, planned.calls, planned.samples, planned.hold_s)))


def clock_of(device: Device) -> Clock:
    if not device.on_gpu:
        return HostClock()
    import torch

    return EventClock(torch.cuda)

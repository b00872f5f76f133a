"""A measured bus-bandwidth curve beside the predicted one: which sizes are off, and in what manner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from sim.collective import CollectiveMachine
from sim.interop.bus_bandwidth import bus_factor
from sim.interop.rccl_launch import Launch

# Where bandwidth decides, predictions and good machines agree within a fifth; where latency decides,
# microseconds of software spread them over a factor of two.
LOW_LARGE, LOW_SMALL = 0.8, 0.5
FAST_LARGE, FAST_SMALL = 1.25, 2.0
LARGE_SHARE = 0.85  # of the predicted plateau: bandwidth decides from here on
HALF_SHARE, FULL_SHARE = 0.5, 0.9  # between these the bounds go from those of latency to those of bandwidth
SMALL_SHARE = 0.1  # latency decides up to here
FLAT = 1.3  # a plateau: largest over smallest bandwidth of large messages
OUTLIER = 1.3  # a time this much above its twin or its neighbours is one of a kind


@dataclass(frozen=True)
class Point:
    """One row. ``twin_s`` is its other half (in-place), where it was run."""

    line: int
    size_bytes: int
    measured_s: float
    twin_s: float | None
    predicted_s: float
    share: float  # predicted bus bandwidth over its plateau
    protocol: str = ""

    @property
    def speed(self) -> float:
        """Measured over predicted bandwidth."""
        return self.predicted_s / self.measured_s

    @property
    def is_large(self) -> bool:
        return self.share >= LARGE_SHARE

    @property
    def is_small(self) -> bool:
        return self.share <= SMALL_SHARE

    @property
    def is_low(self) -> bool:
        return self.speed < self._between(LOW_SMALL, LOW_LARGE)

    @property
    def is_fast(self) -> bool:
        return self.speed > self._between(FAST_SMALL, FAST_LARGE)

    def _between(self, small: float, large: float) -> float:
        part = (self.share - HALF_SHARE) / (FULL_SHARE - HALF_SHARE)
        return small + (large - small) * min(1.0, max(0.0, part))


@dataclass(frozen=True)
class Curve:
    """``points`` by size, predicted for ``machine``; ``launch`` is what the log says of its start."""

    machine: CollectiveMachine
    kind: str
    points: tuple[Point, ...]
    launch: Launch

    @property
    def factor(self) -> float:
        return bus_factor(self.kind, self.machine.ranks)

    @cached_property
    def outliers(self) -> frozenset[int]:
        """Lines of single sizes that took longer than their twin or their neighbours allow."""
        return frozenset(p.line for i, p in enumerate(self.points) if self._is_outlier(i))

    @cached_property
    def steady(self) -> tuple[Point, ...]:
        """The points without the outliers."""
        return tuple(p for p in self.points if p.line not in self.outliers)

    @property
    def small_speed(self) -> float | None:
        return _median([p.speed for p in self.steady if p.is_small])

    @property
    def large_speed(self) -> float | None:
        return _median([p.speed for p in self.steady if p.is_large])

    @property
    def floor_s(self) -> float | None:
        """Measured time of small messages."""
        return _median([p.measured_s for p in self.steady if p.is_small])

    @property
    def plateau_Bps(self) -> float | None:
        """Measured bus bandwidth where the predicted one has reached its plateau."""
        return _median([self.bus_Bps(p) for p in self.steady if p.is_large])

    @property
    def has_plateau(self) -> bool:
        """Whether large messages all reach about the same bandwidth."""
        rates = [self.bus_Bps(p) for p in self.steady if p.is_large]
        return bool(rates) and max(rates) <= FLAT * min(rates)

    @property
    def expected_plateau_Bps(self) -> float | None:
        return _median([p.size_bytes / p.predicted_s * self.factor for p in self.steady if p.is_large])

    @property
    def spread(self) -> float:
        """Largest over smallest speed of the steady points."""
        speeds = [p.speed for p in self.steady]
        return max(speeds) / min(speeds) if speeds else 1.0

    def bus_Bps(self, point: Point) -> float:
        return point.size_bytes / point.measured_s * self.factor

    @property
    def large_is_low(self) -> bool:
        return self.large_speed is not None and self.large_speed < LOW_LARGE

    @property
    def small_is_low(self) -> bool:
        return self.small_speed is not None and self.small_speed < LOW_SMALL

    def _is_outlier(self, index: int) -> bool:
        point = self.points[index]
        if point.twin_s is not None and point.measured_s > OUTLIER * point.twin_s:
            return True
        near = [self.points[i] for i in (index - 1, index + 1) if 0 <= i < len(self.points)]
        if len(near) < 2 or any(p.is_low for p in near):
            return False
        return point.speed * OUTLIER < min(p.speed for p in near)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None

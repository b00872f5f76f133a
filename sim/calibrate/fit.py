"""One figure fitted so that the middle prediction meets the middle measurement.

The median of the log errors is brought to zero: half of the points are predicted slower than measured,
half faster, and a few outliers do not move it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

LOW, HIGH = 0.02, 1.25  # an efficiency below or above is no efficiency of this machine
SENSITIVE = 1.5  # a point must slow down this much when the figure halves, or it says nothing about it
_STEPS = 40


@dataclass(frozen=True)
class Fitted:
    """``key`` is the figure's path in a stack file (``gemm_efficiency.bf16``)."""

    key: str
    value: float
    before: float | None
    logs: tuple[str, ...]
    note: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "figure": self.key,
            "before": self.before,
            "after": self.value,
            "logs": list(self.logs),
            "note": self.note,
        }


@dataclass(frozen=True)
class Accuracy:
    """Mean absolute log error of the predictions for one set of points, before and after."""

    log: str
    what: str
    points: int
    before: float
    after: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "log": self.log, "what": self.what, "points": self.points,
            "error_before": self.before, "error_after": self.after,
        }  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """A measured time and the model's, as a function of the figure to fit."""

    measured_s: float
    predicted_s: Callable[[float], float]

    @property
    def is_sensitive(self) -> bool:
        return self.predicted_s(0.5) > SENSITIVE * self.predicted_s(1.0)


def solve(timings: Sequence[Timing], steps: int = _STEPS) -> float | None:
    """The figure for which the median log error is zero; None where that is not between ``LOW`` and ``HIGH``.

    Times fall as the figure grows, so bisection finds it.
    """
    low, high = LOW, HIGH
    if median_error(timings, low) < 0 or median_error(timings, high) > 0:
        return None
    for _ in range(steps):
        middle = math.sqrt(low * high)
        if median_error(timings, middle) > 0:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def median_error(timings: Sequence[Timing], figure: float) -> float:
    """Median of ln(predicted / measured)."""
    return median(math.log(t.predicted_s(figure) / t.measured_s) for t in timings)


def mean_absolute_error(predicted_s: Sequence[float], measured_s: Sequence[float]) -> float:
    """Mean of |ln(predicted / measured)|."""
    return fmean(abs(math.log(p / m)) for p, m in zip(predicted_s, measured_s, strict=True))

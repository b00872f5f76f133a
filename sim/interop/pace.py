"""How fast a run went, warm-up left out.

The rule: of every start of the job, the first printed line (it holds compilation, tuning, connections) and the
iterations up to ``WARM_UP_ITERATIONS`` go; then leading lines that are slower than ``WARM_UP_SLOWER`` times the
median of the second half, at most a quarter of the lines. A run of so few lines that nothing would be left keeps its
last one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.interop.training_log import TrainingStep

WARM_UP_ITERATIONS = 2  # as Primus leaves out of its own means
WARM_UP_SLOWER = 1.2
STALL = 1.5  # a step this many times the median is a stall
_DRIFT_NEEDS = 9  # lines


@dataclass(frozen=True)
class Pace:
    """Medians over the lines kept; ``p5`` and ``p95`` of durations relative to their median.

    ``stalled_share`` is the part of all time that stalls cost beyond a normal step; ``drift`` how much longer steps
    of the last third take than those of the first, as a fraction (None with too few lines).
    """

    lines: int
    kept: int
    warm_up_lines: int
    seconds: float | None
    tokens_per_s_per_gpu: float | None
    tflops: float | None
    mfu: float | None
    p5: float
    p95: float
    stalls: int
    stalled_share: float
    drift: float | None
    within_warm_up: bool  # nothing but warm-up was printed

    @property
    def spread(self) -> float:
        """Width of the middle nine tenths of durations, as a fraction of the median."""
        return self.p95 - self.p5


def pace_of(steps: Sequence[TrainingStep]) -> Pace:
    """Raises ``ValueError`` without steps."""
    if not steps:
        raise ValueError("no steps to take the pace of")
    starts = [list(group) for _, group in groupby(steps, key=lambda step: step.start)]
    kept = [step for group in starts for step in _warm(group)]
    only_warm_up = not kept
    kept = kept or [steps[-1]]
    durations = [step.duration for step in kept]
    middle = median(durations)
    long = [d for d in durations if d > STALL * middle]
    return Pace(
        lines=len(steps),
        kept=len(kept),
        warm_up_lines=len(steps) - len(kept),
        seconds=_median([step.seconds for step in kept]),
        tokens_per_s_per_gpu=_median([step.tokens_per_s_per_gpu for step in kept]),
        tflops=_median([step.tflops for step in kept]),
        mfu=_median([step.mfu for step in kept]),
        p5=quantile(durations, 0.05) / middle,
        p95=quantile(durations, 0.95) / middle,
        stalls=len(long),
        stalled_share=sum(d - middle for d in long) / sum(durations),
        drift=_drift(durations),
        within_warm_up=only_warm_up,
    )


def _warm(steps: list[TrainingStep]) -> list[TrainingStep]:
    """The steps of one start without its warm-up."""
    left = [step for step in steps[1:] if step.iteration - steps[0].iteration >= WARM_UP_ITERATIONS]
    if not left:
        return []
    usual = median(step.duration for step in left[len(left) // 2 :])
    slow = 0
    while slow < len(left) // 4 and left[slow].duration > WARM_UP_SLOWER * usual:
        slow += 1
    return left[slow:]


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of ``values`` lie, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _median(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None


def _drift(durations: Sequence[float]) -> float | None:
    if len(durations) < _DRIFT_NEEDS:
        return None
    third = len(durations) // 3
    return median(durations[-third:]) / median(durations[:third]) - 1.0

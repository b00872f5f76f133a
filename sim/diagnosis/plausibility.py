"""How plausible a mechanism is, given a gap: Bayes' rule over simulated effects.

All in natural logarithms of step times. A healthy run differs from its prediction by the prediction's own error,
a logistic distribution as wide as the 90 % range. A mechanism moves the run by an effect between its mild and its severe
simulation, each as likely as another; the gap's density under it is the mean of the error's over that span. Hence a
mechanism that can be anything explains less than one that predicts this very gap. "Something else" may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from sim.range import shipped_evidence
from sim.results import PredictionRange

LEAST_SCALE = 0.02  # of the error: two figures of one run differ by that much (assumed)
# Scale of the error of a simulated effect, as a share of it: of 214 pairs of ledger runs that differ in their plan alone
# (same stack, model and GPUs), nine of ten differences are predicted within 49 % (0.49 / ln 19).
EFFECT_ERROR = 0.17
EXTRA_SHARE = 0.5  # how often a run that somebody asks about has more than one thing wrong: assumed
UNKNOWN_SCALE = 0.15  # where no published run says how wrong a prediction may be: assumed
ANYTHING = 1.0 / (2.0 * math.log(10.0))  # density of a gap between a tenth and ten times
# What a sign says for a mechanism that shows it, and for one that shows its opposite: assumed, one rule for all.
FITTING, CONTRARY = 2.0, 0.25
MEMORY_ERROR = 0.1  # standard deviation of ln(predicted / measured bytes): assumed
LEAST_MEMORY_FACTOR = 0.05

_PIECES = 8  # of a span of effects, within which they are all about as uncertain
_EXPONENTIAL = tuple(-math.log(1.0 - (i + 0.5) / 32) for i in range(32))  # equally likely draws, mean 1


@dataclass(frozen=True)
class ErrorModel:
    """ln(measured / expected) of a run that the mechanism alone slows: logistic about ``centre`` with ``scale``.

    With half of the weight, something else slows it too, by an exponential amount with mean ``extra``: who asks why a run
    is slow seldom runs a tuned stack.
    """

    centre: float
    scale: float
    extra: float = 0.0

    @staticmethod
    def of(predicted_s: float, found: PredictionRange | None, extra: float) -> ErrorModel:
        """Nine tenths of a logistic distribution lie within ln(19) scales of its centre."""
        if found is None:
            return ErrorModel(0.0, UNKNOWN_SCALE, extra)
        low, high = math.log(found.low_s / predicted_s), math.log(found.high_s / predicted_s)
        scale = max(LEAST_SCALE, (high - low) / (2.0 * math.log(19.0)))
        return ErrorModel((low + high) / 2.0, scale, extra)

    @staticmethod
    def against_a_healthy_run() -> ErrorModel:
        """Two measurements on one machine: only what repeats of a run differ by is left."""
        return ErrorModel(0.0, LEAST_SCALE)

    def density(self, gap: float, low: float, high: float) -> float:
        """Mean density of ``gap`` over effects from ``low`` to ``high``."""
        alone = self._density(gap, low, high)
        if not self.extra:
            return alone
        with_more = fmean(self._density(gap - self.extra * draw, low, high) for draw in _EXPONENTIAL)
        return (1.0 - EXTRA_SHARE) * alone + EXTRA_SHARE * with_more

    def spread(self, effect: float) -> float:
        """Scale of the error with an effect of that size, which is itself a prediction."""
        return math.hypot(self.scale, EFFECT_ERROR * effect)

    def _density(self, gap: float, low: float, high: float) -> float:
        gap -= self.centre
        if high - low < 1e-9:
            scale = self.spread(low)
            t = math.exp(-abs(gap - low) / scale)
            return t / (scale * (1.0 + t) ** 2)
        width = (high - low) / _PIECES
        return fmean(self._piece(gap, low + i * width, low + (i + 1) * width) for i in range(_PIECES))

    def _piece(self, gap: float, low: float, high: float) -> float:
        scale = self.spread((low + high) / 2.0)
        return (_below((gap - low) / scale) - _below((gap - high) / scale)) / (high - low)


def _below(z: float) -> float:
    """Standard logistic distribution function."""
    return 1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0


def slowness_of_untuned_runs() -> float:
    """Mean ln(measured / predicted) of the ledger's untuned runs: what a stack that nobody tuned costs beyond the model."""
    rows = [-row.value for row in shipped_evidence().rows if not row.case.tuned]
    return max(0.0, fmean(rows)) if rows else 0.0


def sign_factor(shown: Mapping[str, str], expected: Mapping[str, str]) -> float:
    """What the signs seen say for a mechanism that shows ``expected``."""
    factor = 1.0
    for sign, value in shown.items():
        if sign in expected:
            factor *= FITTING if expected[sign] == value else CONTRARY
    return factor


def memory_factor(measured: float, usual: float, changed: float) -> float:
    """What measured memory says for a change that predicts ``changed`` bytes where ``usual`` were due."""

    def fit(predicted: float) -> float:
        return math.exp(-0.5 * (math.log(measured / predicted) / MEMORY_ERROR) ** 2)

    ratio = (fit(changed) + LEAST_MEMORY_FACTOR) / (fit(usual) + LEAST_MEMORY_FACTOR)
    return min(1.0 / LEAST_MEMORY_FACTOR, max(LEAST_MEMORY_FACTOR, ratio))

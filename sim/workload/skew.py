"""How often the same row is asked for: ids that follow Zipf's law, from uniform (0) upwards."""

from __future__ import annotations

import math
from functools import lru_cache

EXACT = 1000  # ranks summed one by one; beyond them a power law is integrated over bins
BINS = 400


@lru_cache(maxsize=1024)
def distinct(draws: float, rows: int, skew: float) -> float:
    """Expected number of distinct rows among ``draws`` of ``rows``, where row r comes with weight r^-skew.

    Σ 1 − exp(−n·p_r), the Poisson form of 1 − (1 − p_r)^n.
    """
    total = _weight(rows, skew)
    return min(
        draws,
        sum(count * -math.expm1(-draws * weight / total) for count, weight in _bins(rows, skew)),
    )


@lru_cache(maxsize=1024)
def hottest_share(rows: int, skew: float) -> float:
    """Share of all draws that hit the most popular row."""
    return 1.0 / _weight(rows, skew)


def _weight(rows: int, skew: float) -> float:
    return sum(count * weight for count, weight in _bins(rows, skew))


@lru_cache(maxsize=1024)
def _bins(rows: int, skew: float) -> tuple[tuple[float, float], ...]:
    """(number of rows, mean weight of one): the first ones alone, then bins of equal ratio."""
    found = [(1.0, rank**-skew) for rank in range(1, min(rows, EXACT) + 1)]
    if rows <= EXACT:
        return tuple(found)
    low, ratio = EXACT + 0.5, ((rows + 0.5) / (EXACT + 0.5)) ** (1.0 / BINS)
    for _ in range(BINS):
        high = low * ratio
        found.append((high - low, _integral(low, high, skew) / (high - low)))
        low = high
    return tuple(found)


def _integral(low: float, high: float, skew: float) -> float:
    """∫ r^-skew dr."""
    if math.isclose(skew, 1.0):
        return math.log(high / low)
    power: float = 1.0 - skew
    return float(high**power - low**power) / power

"""Bus bandwidth as rccl-tests defines it, and what it says about the number of ranks.

``busbw = algbw x factor(n)`` with 2(n-1)/n for all-reduce, (n-1)/n where every rank ends up with or
gives away n parts, 1 for the others (rccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

COLLECTIVES = {
    "all_reduce": 2,
    "all_gather": 1,
    "reduce_scatter": 1,
    "all_to_all": 1,
    "gather": 1,
    "scatter": 1,
    "broadcast": 0,
    "reduce": 0,
    "send": 0,
}
"""Passes over the buffer that the bus bandwidth counts; 0 where it equals the algorithm bandwidth."""

MOST_RANKS = 2**21
_EXACT = 1e-9  # of floating point, which the inverse magnifies by the number of ranks


def bus_factor(collective: str, ranks: int) -> float:
    """Bus over algorithm bandwidth of ``collective`` on ``ranks`` ranks."""
    passes = COLLECTIVES[collective]
    return passes * (ranks - 1) / ranks if passes else 1.0


def ranks_of(collective: str, low: float, high: float) -> tuple[int, int] | None:
    """The numbers of ranks whose factor lies between ``low`` and ``high``; None where there is none.

    Inverts the factor: n = passes / (passes - ratio). Collectives with a factor of 1 allow any number.
    """
    passes = COLLECTIVES[collective]
    if not passes:
        return (2, MOST_RANKS) if low <= 1.0 <= high else None
    if low >= passes:
        return None
    least = 2 if low <= passes / 2 else math.ceil(_inverse(passes, low) * (1 - _EXACT))
    most = MOST_RANKS if high >= passes else math.floor(_inverse(passes, high) * (1 + _EXACT))
    return (least, most) if 2 <= least <= most else None


def agreed(ranges: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """The numbers that most of ``ranges`` contain, as one range; the narrowest of equally good ones."""
    spans = list(ranges)
    if not spans:
        return None
    starts = sorted({low for low, _ in spans})
    votes = {start: sum(low <= start <= high for low, high in spans) for start in starts}
    most = max(votes.values())
    found = [
        (start, min(high for low, high in spans if low <= start <= high))
        for start in starts
        if votes[start] == most
    ]
    return min(found, key=lambda span: (span[1] - span[0], span[0]))


def _inverse(passes: int, ratio: float) -> float:
    return passes / (passes - ratio) if ratio < passes else math.inf

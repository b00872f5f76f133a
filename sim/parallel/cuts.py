"""Where the model is cut into parts: how many layers each one gets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from sim.parallel.placement import Placement

_HALVINGS = 60  # of the interval that the largest part's cost lies in


def even(layers: int, parts: int) -> tuple[int, ...]:
    """As even as they go, the extra ones first: the last part carries the output projection as well."""
    share, extra = divmod(layers, parts)
    return tuple(share + (1 if part < extra else 0) for part in range(parts))


def with_ends(layers: int, place: Placement, first: int | None, last: int | None) -> tuple[int, ...]:
    """``first`` and ``last`` layers on the stages at the ends, the others as even as they go.

    What a stage at an end is given is divided over its parts.
    """
    given = {stage: n for stage, n in ((0, first), (place.stages - 1, last)) if n is not None}
    free = [part for part in range(place.parts) if place.stage(part) not in given]
    rest = dict(zip(free, even(layers - sum(given.values()), len(free)), strict=True)) if free else {}
    return tuple(
        rest[part] if part in rest else given[place.stage(part)] // place.chunks
        for part in range(place.parts)
    )


def balanced(costs: Sequence[float], end_cost: float, parts: int) -> tuple[int, ...]:
    """The cut whose dearest part costs least, at least one layer each; ``end_cost`` comes on top of the last part.

    Among equals the first part is the smallest: it holds the most micro-batches in flight.
    """
    low, high = 0.0, sum(costs) + end_cost
    best = _filled(costs, end_cost, parts, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        found = _filled(costs, end_cost, parts, middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    if best is None:
        raise ValueError(f"{len(costs)} layers do not fill {parts} parts")
    return best


def _filled(costs: Sequence[float], end_cost: float, parts: int, most: float) -> tuple[int, ...] | None:
    """Parts filled from the last one back up to ``most`` each; None where layers are left over."""
    before = [0.0, *accumulate(costs)]
    counts: list[int] = []
    end = len(costs)
    for part in reversed(range(parts)):
        spent = end_cost if part == parts - 1 else 0.0
        start = end
        while start > part and before[end] - before[start - 1] + spent <= most:
            start -= 1
        if start == end:
            return None
        counts.append(end - start)
        end = start
    return tuple(reversed(counts)) if end == 0 else None

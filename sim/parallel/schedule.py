"""The order in which the stages of a pipeline run their passes."""

from __future__ import annotations

from collections.abc import Sequence

from sim.parallel.interleaving import interleaved
from sim.parallel.passes import BACKWARD, FORWARD, WEIGHT, Order, Pass
from sim.parallel.placement import Placement
from sim.parallel.v_shape import most_held, repeated, zbv
from sim.parallel.weight_filling import filled

__all__ = [
    "BACKWARD", "FOLDED", "FORWARD", "SPLIT", "WEIGHT", "Order", "Pass", "gpipe", "held_at_most", "one_f_one_b",
    "orders", "placement",
]  # fmt: skip

FOLDED = frozenset({"zbv", "v-half", "v-min"})
"""Schedules with two parts per stage, the second on the way back."""

SPLIT = FOLDED | {"zb-h1"}
"""Schedules that run weight gradients apart from input gradients."""


def placement(schedule: str, stages: int, chunks: int = 1) -> Placement:
    """Where the parts of the model lie; ``chunks`` per stage count for ``interleaved`` only."""
    if schedule in FOLDED:
        return Placement(stages, 2, folded=True)
    return Placement(stages, chunks if schedule == "interleaved" else 1)


def orders(schedule: str, stages: int, microbatches: int, chunks: int = 1) -> tuple[Order, ...]:
    """Passes of every stage in issue order.

    Raises ValueError for an unknown schedule, and for interleaved rounds that cannot be equal.
    """
    everyone = range(stages)
    match schedule:
        case "gpipe":
            return tuple(gpipe(stage, microbatches) for stage in everyone)
        case "1f1b":
            return tuple(one_f_one_b(stage, stages, microbatches) for stage in everyone)
        case "interleaved":
            return tuple(interleaved(stage, stages, chunks, microbatches) for stage in everyone)
        case "zb-h1":
            plain = [one_f_one_b(stage, stages, microbatches) for stage in everyone]
            return filled(plain, stages, stages)
        case "zbv":
            v = [zbv(stage, stages, microbatches) for stage in everyone]
            return filled(v, 2 * stages, 2 * stages)
        case "v-half" | "v-min":
            v = list(repeated(schedule, stages, microbatches))
            return filled(v, 2 * stages, most_held(schedule, stages))
    raise ValueError(
        f"schedule: unknown {schedule!r}; known: 1f1b, gpipe, interleaved, zb-h1, zbv, v-half, v-min"
    )


def gpipe(stage: int, microbatches: int) -> Order:
    """All forwards, then all backwards in reverse."""
    forwards = tuple(Pass(FORWARD, stage, m) for m in range(microbatches))
    return forwards + tuple(Pass(BACKWARD, stage, m) for m in reversed(range(microbatches)))


def one_f_one_b(stage: int, stages: int, microbatches: int) -> Order:
    """Warm-up of p-1-stage forwards, then one forward and one backward in turn, then the rest."""
    warmup = min(stages - 1 - stage, microbatches)
    order = [Pass(FORWARD, stage, m) for m in range(warmup)]
    for m in range(warmup, microbatches):
        order += [Pass(FORWARD, stage, m), Pass(BACKWARD, stage, m - warmup)]
    order += [Pass(BACKWARD, stage, m) for m in range(microbatches - warmup, microbatches)]
    return tuple(order)


def held_at_most(order: Sequence[Pass], size: Sequence[float]) -> float:
    """Largest sum of ``size`` (by part) over passes run forward whose last backward pass is still due."""
    frees = WEIGHT if any(one.kind == WEIGHT for one in order) else BACKWARD
    held = most = 0.0
    for one in order:
        if one.kind == FORWARD:
            held += size[one.part]
        elif one.kind == frees:
            held -= size[one.part]
        most = max(most, held)
    return most

"""The order in which the stages of a pipeline run their passes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from sim.parallel.interleaving import interleaved
from sim.parallel.passes import BACKWARD, FORWARD, WEIGHT, Order, Pass, Slot
from sim.parallel.placement import Placement
from sim.parallel.two_way import dual_pipe, dual_pipe_v
from sim.parallel.v_shape import most_held, repeated, zbv
from sim.parallel.weight_filling import filled

__all__ = [
    "BACKWARD", "FOLDED", "FORWARD", "SPLIT", "WEIGHT", "Order", "Pass", "Slot", "gpipe", "held_at_most",
    "one_f_one_b", "orders", "placement", "slots",
]  # fmt: skip

FOLDED = frozenset({"zbv", "v-half", "v-min", "dualpipe-v"})
"""Schedules with two parts per stage, the second on the way back."""

SPLIT = FOLDED | {"zb-h1", "zb-h2", "dualpipe"}
"""Schedules that run weight gradients apart from input gradients."""


def placement(schedule: str, stages: int, chunks: int = 1) -> Placement:
    """Where the parts of the model lie; ``chunks`` per stage count for ``interleaved`` only."""
    if schedule == "dualpipe":
        return Placement(stages, 2, folded=True, copies=2)
    if schedule in FOLDED:
        return Placement(stages, 2, folded=True)
    return Placement(stages, chunks if schedule == "interleaved" else 1)


def slots(schedule: str, stages: int, microbatches: int, chunks: int = 1) -> tuple[tuple[Slot, ...], ...]:
    """Passes of every stage in issue order, those that run as one together.

    Raises ValueError as ``orders`` does.
    """
    match schedule:
        case "dualpipe":
            return dual_pipe(stages, microbatches)
        case "dualpipe-v":
            return dual_pipe_v(stages, microbatches)
    return tuple(tuple((one,) for one in order) for order in orders(schedule, stages, microbatches, chunks))


def orders(schedule: str, stages: int, microbatches: int, chunks: int = 1) -> tuple[Order, ...]:
    """Passes of every stage in issue order.

    Raises ValueError for an unknown schedule, for interleaved rounds that cannot be equal, and for a number of
    stages or micro-batches that DualPipe cannot run.
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
        case "zb-h2":
            early = [one_f_one_b(stage, stages, microbatches, twice=True) for stage in everyone]
            return filled(early, stages, 2 * stages - 1)
        case "zbv":
            v = [zbv(stage, stages, microbatches) for stage in everyone]
            return filled(v, 2 * stages, 2 * stages)
        case "v-half" | "v-min":
            v = list(repeated(schedule, stages, microbatches))
            return filled(v, 2 * stages, most_held(schedule, stages))
        case "dualpipe" | "dualpipe-v":
            together = slots(schedule, stages, microbatches)
            return tuple(tuple(chain.from_iterable(stage)) for stage in together)
    raise ValueError(
        f"schedule: unknown {schedule!r}; known: 1f1b, gpipe, interleaved, zb-h1, zb-h2, zbv, v-half, v-min, "
        "dualpipe, dualpipe-v"
    )


def gpipe(stage: int, microbatches: int) -> Order:
    """All forwards, then all backwards in reverse."""
    forwards = tuple(Pass(FORWARD, stage, m) for m in range(microbatches))
    return forwards + tuple(Pass(BACKWARD, stage, m) for m in reversed(range(microbatches)))


def one_f_one_b(stage: int, stages: int, microbatches: int, *, twice: bool = False) -> Order:
    """Warm-up of p-1-stage forwards, then one forward and one backward in turn, then the rest.

    ``twice`` as many forwards warm up ZB-H2: enough to fill all waits before the first backward arrives.
    """
    warmup = min((stages - 1 - stage) * (2 if twice else 1), microbatches)
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

"""The order in which a pipeline stage runs its forwards and backwards."""

from __future__ import annotations

FORWARD, BACKWARD = "forward", "backward"


def gpipe(microbatches: int) -> tuple[tuple[str, int], ...]:
    """All forwards, then all backwards in reverse."""
    forwards = tuple((FORWARD, m) for m in range(microbatches))
    return forwards + tuple((BACKWARD, m) for m in reversed(range(microbatches)))


def one_f_one_b(stage: int, stages: int, microbatches: int) -> tuple[tuple[str, int], ...]:
    """Warm-up of p-1-stage forwards, then one forward and one backward in turn, then the rest."""
    warmup = min(stages - 1 - stage, microbatches)
    order = [(FORWARD, m) for m in range(warmup)]
    for m in range(warmup, microbatches):
        order += [(FORWARD, m), (BACKWARD, m - warmup)]
    order += [(BACKWARD, m) for m in range(microbatches - warmup, microbatches)]
    return tuple(order)


def stage_order(schedule: str, stage: int, stages: int, microbatches: int) -> tuple[tuple[str, int], ...]:
    """(direction, micro-batch) pairs of ``stage`` in issue order."""
    if schedule == "gpipe":
        return gpipe(microbatches)
    return one_f_one_b(stage, stages, microbatches)

"""Bare pipelines for the engine: durations by hand, no model and no machine."""

from __future__ import annotations

from collections.abc import Sequence

from sim.engine.events import run
from sim.engine.timeline import Timeline
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.schedule import BACKWARD, FORWARD, SPLIT, WEIGHT, orders, placement
from sim.program import COMPUTE, SEND, Program


def pipeline(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    microbatches: int,
    *,
    schedule: str = "1f1b",
    chunks: int = 1,
    weight_s: Sequence[float] | None = None,
    send_s: float = 0.0,
    blocking: bool = False,
) -> tuple[Program, list[float]]:
    """Program and durations of one step; one entry per part of the model in model order.

    ``backward_s`` is the whole backward, or its input gradients beside ``weight_s``; a schedule that does
    not split the backward runs the two together.
    """
    parts = len(forward_s)
    stages = parts // len(placement(schedule, 1, chunks).on_stage(0))
    place = placement(schedule, stages, chunks)
    weight_s = weight_s or [0.0] * parts
    if schedule not in SPLIT:
        backward_s = [b + w for b, w in zip(backward_s, weight_s, strict=True)]
    seconds = {FORWARD: forward_s, BACKWARD: backward_s, WEIGHT: weight_s}
    builder = ProgramBuilder(stages)
    duration_s: list[float] = []
    for stage, order in enumerate(orders(schedule, stages, microbatches, chunks)):
        sent: Key | None = None
        for one in order:
            needed = one.needs(parts)
            waits: list[Key] = []
            if needed is not None:
                far = place.stage(needed.part) != stage
                waits.append(("send", *needed) if far else tuple(needed))
            if blocking and sent is not None:
                waits.append(sent)
            builder.add(tuple(one), stage, COMPUTE, one.kind, one.kind, (), waits=tuple(waits))
            duration_s.append(seconds[one.kind][one.part])
            sent = None
            target = one.part + (1 if one.kind == FORWARD else -1)
            if one.kind != WEIGHT and 0 <= target < parts and place.stage(target) != stage:
                sent = ("send", *one)
                builder.add(sent, stage, SEND, "send", "send", (), waits=(tuple(one),))
                duration_s.append(send_s)
    return builder.build(), duration_s


def play(*pipeline_arguments: object, **options: object) -> Timeline:
    return run(*pipeline(*pipeline_arguments, **options))  # type: ignore[arg-type]

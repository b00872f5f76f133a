"""Bare pipelines for the engine: durations by hand, no model and no machine."""

from __future__ import annotations

from collections.abc import Sequence

from sim.engine.events import run
from sim.engine.timeline import Timeline
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.schedule import BACKWARD, FORWARD, SPLIT, WEIGHT, placement, slots
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
    beside: float = 1.0,
    staggered: bool = False,
) -> tuple[Program, list[float]]:
    """Program and durations of one step; one entry per part of the model in model order, copies too.

    ``backward_s`` is the whole backward, or its input gradients beside ``weight_s``; a schedule that does
    not split the backward runs the two together. A forward beside a backward takes ``beside`` of their sum.
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
    for stage, whole in enumerate(slots(schedule, stages, microbatches, chunks)):
        sent: list[Key] = []
        for slot in whole:
            waits: list[Key] = []
            for needed in (one.needs(place.depth) for one in slot):
                if needed is not None and needed not in slot:
                    far = place.stage(needed.part) != stage
                    waits.append(("send", *needed) if far else tuple(needed))
            if blocking:
                waits += sent
            builder.add(tuple(slot[0]), stage, COMPUTE, slot[0].kind, slot[0].kind, (), waits=tuple(waits))
            for other in slot[1:]:
                builder.also(tuple(slot[0]), tuple(other))
            spent = sum(seconds[one.kind][one.part] for one in slot)
            duration_s.append(spent * (beside if slot[0].kind == FORWARD and len(slot) > 1 else 1.0))
            sent = []
            for one in slot:
                target = one.passes_on(place.depth)
                if target is not None and place.stage(target) != stage:
                    sent.append(("send", *one))
                    builder.add(sent[-1], stage, SEND, "send", "send", (), waits=(tuple(one),))
                    duration_s.append(send_s)
    return builder.build(staggered=staggered), duration_s


def play(*pipeline_arguments: object, **options: object) -> Timeline:
    return run(*pipeline(*pipeline_arguments, **options))  # type: ignore[arg-type]

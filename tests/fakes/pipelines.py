"""Bare pipelines for the engine: durations by hand, no model and no machine."""

from __future__ import annotations

from collections.abc import Sequence

from sim.engine.events import run
from sim.engine.timeline import Timeline
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.schedule import FORWARD, stage_order
from sim.program import COMPUTE, SEND, Program


def pipeline(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    microbatches: int,
    *,
    schedule: str = "1f1b",
    send_s: float = 0.0,
    blocking: bool = False,
) -> tuple[Program, list[float]]:
    """Program and durations of one step; one entry of ``forward_s`` and ``backward_s`` per stage."""
    stages = len(forward_s)
    builder = ProgramBuilder(stages)
    duration_s: list[float] = []
    for stage in range(stages):
        sent: Key | None = None
        for direction, microbatch in stage_order(schedule, stage, stages, microbatches):
            step = 1 if direction == FORWARD else -1
            waits: list[Key] = []
            if 0 <= stage - step < stages:
                waits.append(("send", direction, stage - step, microbatch))
            if blocking and sent is not None:
                waits.append(sent)
            key: Key = (direction, stage, microbatch)
            builder.add(key, stage, COMPUTE, direction, direction, (), waits=tuple(waits))
            duration_s.append((forward_s if direction == FORWARD else backward_s)[stage])
            sent = None
            if 0 <= stage + step < stages:
                sent = ("send", direction, stage, microbatch)
                builder.add(sent, stage, SEND, "send", "send", (), waits=(key,))
                duration_s.append(send_s)
    return builder.build(), duration_s


def play(*pipeline_arguments: object, **options: object) -> Timeline:
    return run(*pipeline(*pipeline_arguments, **options))  # type: ignore[arg-type]

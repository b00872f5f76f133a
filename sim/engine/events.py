"""The readable engine: one SimPy process per role and stream.

A task starts when its stream is free and everything it waits for has ended. Simultaneous events are
handled in (time, role, stream, order): processes are created in that order and SimPy keeps
first-in-first-out order within one instant, so equal inputs give equal outputs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

from sim.engine.links import SharedLinks, Solver
from sim.engine.timeline import Timeline
from sim.program import Flow, Program


def run(
    program: Program,
    duration_s: Sequence[float],
    flows: Sequence[Flow | None] = (),
    solver: Solver | None = None,
) -> Timeline:
    """Plays ``program`` with one duration per task id.

    A task with a flow takes as long as its links let it: ``solver`` shares them among the flows that are
    live at the same time. Without ``flows`` every task takes its duration.

    Raises ValueError when tasks wait for each other in a circle, or when flows come without a solver.
    """
    environment = simpy.Environment()
    ended = [environment.event() for _ in program.tasks]
    start = [0.0] * len(program.tasks)
    end = [-1.0] * len(program.tasks)
    links = _links(environment, flows, solver)

    def play(ids: tuple[int, ...]) -> Generator[Any, Any, None]:
        for task_id in ids:
            for other in program.tasks[task_id].waits:
                if not ended[other].processed:
                    yield ended[other]
            start[task_id] = environment.now
            flow = flows[task_id] if flows else None
            if flow is not None and links is not None:
                yield from links.carry(task_id, flow)
            elif duration_s[task_id] > 0.0:
                yield environment.timeout(duration_s[task_id])
            end[task_id] = environment.now
            ended[task_id].succeed()

    for streams in program.order:
        for stream in sorted(streams):
            environment.process(play(streams[stream]))
    environment.run()
    stuck = [program.tasks[i].name for i, t in enumerate(end) if t < 0.0]
    if stuck:
        raise ValueError(f"{len(stuck)} tasks wait for each other, first: {stuck[0]}")
    return Timeline(program, tuple(start), tuple(end))


def _links(
    environment: simpy.Environment, flows: Sequence[Flow | None], solver: Solver | None
) -> SharedLinks | None:
    if solver is not None:
        return SharedLinks(environment, solver)
    if any(flow is not None for flow in flows):
        raise ValueError("flows share links: a solver of their rates is due")
    return None

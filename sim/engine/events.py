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
    if any(flow is not None for flow in flows) and solver is None:
        raise ValueError("flows share links: a solver of their rates is due")
    play = _Play(program, duration_s, flows, solver)
    play.run()
    stuck = [program.tasks[i].name for i, t in enumerate(play.end) if t < 0.0]
    if stuck:
        raise ValueError(f"{len(stuck)} tasks wait for each other, first: {stuck[0]}")
    return Timeline(program, tuple(play.start), tuple(play.end))


class _Play:
    """One run: the clock, who has ended, and the times so far."""

    def __init__(
        self,
        program: Program,
        duration_s: Sequence[float],
        flows: Sequence[Flow | None],
        solver: Solver | None,
    ) -> None:
        self.program, self.duration_s, self.flows = program, duration_s, flows
        self.clock = simpy.Environment()
        self.links = None if solver is None else SharedLinks(self.clock, solver)
        self.ended = [self.clock.event() for _ in program.tasks]
        self.start = [0.0] * len(program.tasks)
        self.end = [-1.0] * len(program.tasks)

    def run(self) -> None:
        for streams in self.program.order:
            for stream in sorted(streams):
                self.clock.process(self._stream(streams[stream]))
        self.clock.run()

    def _stream(self, ids: tuple[int, ...]) -> Generator[Any, Any, None]:
        for task_id in ids:
            for other in self.program.tasks[task_id].waits:
                if not self.ended[other].processed:
                    yield self.ended[other]
            self.start[task_id] = self.clock.now
            flow = self.flows[task_id] if self.flows else None
            if flow is not None and self.links is not None:
                yield from self.links.carry(task_id, flow)
            elif self.duration_s[task_id] > 0.0:
                yield self.clock.timeout(self.duration_s[task_id])
            self.end[task_id] = self.clock.now
            self.ended[task_id].succeed()

"""Every rank, not one per role: the same programs with a time for each rank and each trial.

The state of a stream is an array over ranks (``sim.engine.grid``). A collective ends for all of its members when
the last one is through; a task that waits for another role's waits for the same rank of it, or for all of its
ranks at a barrier. With equal durations everywhere the result is that of ``sim.engine.maxplus``, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.engine.grid import Grid, Vector, inside
from sim.engine.maxplus import runnable
from sim.ops import Collective, Group, Op, Shift, TokenExchange
from sim.program import COMPUTE, Program, Task, Work

Durations = Callable[[Task], "Vector | float"]
"""Seconds of a task: one for all ranks, or an array that broadcasts to (trials, *grid.shape)."""


@dataclass(frozen=True)
class RankTimes:
    """When each rank of each role is done: ``end_s[role]`` has shape (trials, ranks of a role), in seconds.

    If they were asked for, ``task_done_s`` says when each rank is through its own part of a task, ``task_end_s`` when
    its communicators let it go: by task id, as arrays of the grid.
    """

    program: Program
    grid: Grid
    end_s: tuple[Vector, ...]
    task_done_s: Sequence[Vector] = ()
    task_end_s: Sequence[Vector] = ()

    @cached_property
    def makespan_s(self) -> Vector:
        """Seconds of the step in each trial, shape (trials,)."""
        latest: Vector = np.max([end.max(axis=1) for end in self.end_s], axis=0)
        return latest


def run(program: Program, grid: Grid, duration_s: Durations, *, keep: bool = False) -> RankTimes:
    """Plays ``program`` on every rank. ``keep`` holds on to the ends of all tasks, for a critical path.

    Raises ValueError when tasks wait for each other in a circle.
    """
    return _Play(program, grid, duration_s, keep).run()


def program_grid(program: Program) -> Grid:
    """The grid that suits the communicators of ``program``."""
    works = {id(task.work): task.work for task in program.tasks}
    return Grid.of(program.ranks, {g for work in works.values() for g in groups(work, program.ranks)})


def groups(works: tuple[Work, ...], ranks: int) -> tuple[Group, ...]:
    """The communicators within a role that ``works`` wait for, each once, in order."""
    found = (_group(work.op) for work in works)
    return tuple(dict.fromkeys(group for group in found if group is not None and inside(group, ranks)))


def _group(op: Op) -> Group | None:
    match op:
        case Shift():
            return op.ring
        case Collective() | TokenExchange():
            return op.group
    return None


class _Play:
    """One run: what has ended when, and who still needs to know."""

    def __init__(self, program: Program, grid: Grid, duration_s: Durations, keep: bool) -> None:
        self.program, self.grid, self.duration_s, self.keep = program, grid, duration_s, keep
        self.end: dict[int, Vector] = {}
        self.done: dict[int, Vector] = {}
        self.needed = Counter(other for task in program.tasks for other in task.waits)
        for streams in program.order:
            for ids in streams.values():
                self.needed.update(ids[:-1])
        self._groups: dict[int, tuple[Group, ...]] = {}
        self.nought = np.zeros((1, *([1] * len(grid.shape))))

    def run(self) -> RankTimes:
        last = [self.nought] * self.program.roles
        for task_id, before in runnable(self.program):
            task = self.program.tasks[task_id]
            end = self._end(task, self._start(task, before))
            if task.stream == COMPUTE:
                last[task.role] = end
            if self.needed[task_id] or self.keep:
                self.end[task_id] = end
        ids = [task.id for task in self.program.tasks] if self.keep else ()
        done = [self.done[i] for i in ids]
        return RankTimes(self.program, self.grid, self._ends(last), done, [self.end[i] for i in ids])

    def _start(self, task: Task, before: int | None) -> Vector:
        start = self.nought if before is None else self._take(before)
        for other in task.waits:
            end = self._take(other)
            if task.barrier:
                end = end.max(axis=tuple(range(1, end.ndim)), keepdims=True)
            start = end if start is self.nought else np.maximum(start, end)
        return start

    def _end(self, task: Task, start: Vector) -> Vector:
        end = start + self.duration_s(task)
        if self.keep:
            self.done[task.id] = end
        key = id(task.work)
        if key not in self._groups:
            self._groups[key] = groups(task.work, self.program.ranks)
        for group in self._groups[key]:
            end = self.grid.together(end, group)
        return end

    def _take(self, task_id: int) -> Vector:
        """The end of a task; forgotten once nobody else needs it."""
        self.needed[task_id] -= 1
        if self.needed[task_id] or self.keep:
            return self.end[task_id]
        return self.end.pop(task_id)

    def _ends(self, last: Sequence[Vector]) -> tuple[Vector, ...]:
        trials = max(end.shape[0] for end in last)
        return tuple(np.broadcast_to(self.grid.flat(end), (trials, self.grid.ranks)) for end in last)

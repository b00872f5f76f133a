"""Which ranks a step waits for: the chain of tasks, across all ranks, that ends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sim.engine.every_rank import RankTimes, groups
from sim.engine.grid import Vector
from sim.program import Task


@dataclass(frozen=True)
class Link:
    """One task of the chain: ``rank`` within its role, and the seconds that the chain spends in it."""

    task: Task
    rank: int
    seconds: float


def critical_path(times: RankTimes) -> tuple[Link, ...]:
    """The chain that ends last in the first trial, from the start of the step to its end.

    Its seconds sum to the makespan: a task starts when the last thing that it waits for ends. Raises ValueError when
    the ends of tasks were not kept.
    """
    if not times.task_end_s:
        raise ValueError("a critical path needs the ends of all tasks: run with keep=True")
    return tuple(reversed(list(_Walk(times).links())))


class _Walk:
    """From the end of the step backwards."""

    def __init__(self, times: RankTimes) -> None:
        self.times, self.program = times, times.program
        self.before = {
            after: before
            for streams in self.program.order
            for ids in streams.values()
            for before, after in pairwise(ids)
        }

    def links(self) -> Iterator[Link]:
        here: tuple[int, int] | None = self._last()
        while here is not None:
            task = self.program.tasks[here[0]]
            rank = self._slowest(task, here[1])
            done = float(self._flat(self.times.task_done_s[task.id])[rank])
            here, began = self._reason(task, rank)
            yield Link(task, rank, done - began)

    def _last(self) -> tuple[int, int]:
        ends = [self._flat(end) for end in self.times.task_end_s]
        task = max(range(len(ends)), key=lambda i: (ends[i].max(), -i))
        return task, int(ends[task].argmax())

    def _slowest(self, task: Task, rank: int) -> int:
        """The member of the task's communicators that the others wait for."""
        ranks = np.array([rank])
        for group in groups(task.work, self.program.ranks):
            span = group.stage_stride * group.size
            first = np.unique(ranks - ranks % span // group.stage_stride * group.stage_stride)
            ranks = (first[:, None] + group.stage_stride * np.arange(group.size)).ravel()
        done = self._flat(self.times.task_done_s[task.id])[ranks]
        return int(ranks[done.argmax()])

    def _reason(self, task: Task, rank: int) -> tuple[tuple[int, int] | None, float]:
        """What ended last of all that the task waited for, on which rank, and when; None at the start."""
        found: tuple[int, int] | None = None
        latest = 0.0
        earlier = (*task.waits, *((self.before[task.id],) if task.id in self.before else ()))
        for other in earlier:
            ends = self._flat(self.times.task_end_s[other])
            whose = int(ends.argmax()) if task.barrier else rank
            if ends[whose] > latest:
                found, latest = (other, whose), float(ends[whose])
        return found, latest

    def _flat(self, values: Vector) -> Vector:
        by_rank: Vector = self.times.grid.flat(values)[0]
        return by_rank

"""A program written out rank by rank, so that the readable engine can play it: slow, and beyond doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product

from sim.engine import events
from sim.engine.every_rank import groups
from sim.engine.timeline import Timeline
from sim.program import Program, Task


def members(rank: int, task: Task, ranks: int) -> Iterator[int]:
    """The ranks that leave ``task`` together with ``rank``: those of its communicators, joined one by one."""
    found = {rank}
    for group in groups(task.work, ranks):
        step, span = group.stage_stride, group.stage_stride * group.size
        starts = {r - (r % span) // step * step for r in found}
        found = {start + i * step for start in starts for i in range(group.size)}
    yield from sorted(found)


def play_unfolded(program: Program, duration_s: Callable[[Task, int], float]) -> Timeline:
    """One role per rank; whoever waits for a task waits for all that leave it together."""
    n, tasks = program.ranks, []
    before = {
        after: task for streams in program.order for ids in streams.values() for task, after in pairwise(ids)
    }
    for task, rank in product(program.tasks, range(n)):
        whom = range(n) if task.barrier else (rank,)
        waits = {(w, m) for w in task.waits for r in whom for m in members(r, program.tasks[w], n)}
        if task.id in before:
            previous = program.tasks[before[task.id]]
            waits |= {(previous.id, m) for m in members(rank, previous, n)}
        tasks.append(
            Task(
                task.id * n + rank,
                task.role * n + rank,
                task.stream,
                task.kind,
                f"{task.name} on {rank}",
                task.microbatch,
                task.layers,
                (),
                tuple(sorted(w * n + m for w, m in waits)),
            )
        )
    order = tuple(
        {stream: tuple(i * n + rank for i in ids) for stream, ids in streams.items()}
        for streams in program.order
        for rank in range(n)
    )
    seconds: Sequence[float] = [duration_s(task, rank) for task, rank in product(program.tasks, range(n))]
    return events.run(Program(tuple(tasks), order), seconds)

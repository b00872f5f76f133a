"""Every start is a maximum, every end a sum: programs evaluated without a clock.

Where durations do not depend on who else is running, a program needs no event queue. A task starts when its
stream is free and everything it waits for has ended, the same rule as in ``sim.engine.events``, and the same
additions in the same order, so both engines agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sim.engine.timeline import Timeline
from sim.program import Program


def run(program: Program, duration_s: Sequence[float]) -> Timeline:
    """Plays ``program`` with one duration per task id.

    Raises ValueError when tasks wait for each other in a circle.
    """
    start, end = [0.0] * len(program.tasks), [0.0] * len(program.tasks)
    tasks = program.tasks
    for task_id, before in runnable(program):
        at = 0.0 if before is None else end[before]
        for other in tasks[task_id].waits:
            at = max(at, end[other])
        start[task_id] = at
        end[task_id] = at + duration_s[task_id]
    return Timeline(program, tuple(start), tuple(end))


def runnable(program: Program) -> Iterator[tuple[int, int | None]]:
    """Task ids so that each comes after all it waits for, with the task before it on its stream.

    One stream runs on until it must wait, then the ones that wait for it: live results stay few. Raises
    ValueError when tasks wait for each other in a circle.
    """
    streams = [ids for streams in program.order for _, ids in sorted(streams.items())]
    position = [0] * len(streams)
    done = bytearray(len(program.tasks))
    waiting: dict[int, list[int]] = {}  # task id -> streams that stand before it
    todo = list(range(len(streams) - 1, -1, -1))
    while todo:
        stream = todo.pop()
        ids, at = streams[stream], position[stream]
        while at < len(ids):
            task_id = ids[at]
            missing = next((other for other in program.tasks[task_id].waits if not done[other]), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(stream)
                break
            yield task_id, ids[at - 1] if at else None
            done[task_id] = 1
            at += 1
            todo += waiting.pop(task_id, ())
        position[stream] = at
    stuck = [task.name for task in program.tasks if not done[task.id]]
    if stuck:
        raise ValueError(f"{len(stuck)} tasks wait for each other, first: {stuck[0]}")

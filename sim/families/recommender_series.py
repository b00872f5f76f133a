"""Memory over time of a recommender's fullest rank: what each task finds there."""

from __future__ import annotations

from math import fsum

from sim.engine.timeline import Timeline
from sim.parallel.recommender_memory import BETWEEN, MOMENT_OF, RecommenderMemory
from sim.program import COMPUTE
from sim.results import MemoryRecord


def recommender_series(memory: RecommenderMemory, timeline: Timeline) -> tuple[MemoryRecord, ...]:
    """One row per task that takes time on the compute stream or exchanges vectors, in order of their starts."""
    rows = []
    lasting = fsum(memory.lasting.values())
    tasks = [t for t in timeline.program.tasks if t.stream == COMPUTE or t.kind == "exchange"]
    for task in sorted(tasks, key=lambda t: (timeline.start_s[t.id], t.id)):
        start, end = timeline.start_s[task.id], timeline.end_s[task.id]
        if end <= start:
            continue
        moment = MOMENT_OF.get(task.name, BETWEEN)
        held = memory.moments[moment]
        activations = held.get("activations", 0.0)
        transient = fsum(held.values()) - activations
        rows.append(
            MemoryRecord(
                stage=0,
                rank=0,
                start_s=start,
                end_s=end,
                task=task.name,
                moment=moment,
                allocated_bytes=lasting + activations + transient,
                lasting_bytes=lasting,
                activations_bytes=activations,
                gathered_bytes=0.0,
                reduction_bytes=0.0,
                transient_bytes=transient,
            )
        )
    return tuple(rows)

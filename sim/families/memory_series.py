"""Memory over time: what the tasks of a stage hold, on the clock of the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sim.engine.timeline import Timeline
from sim.parallel.holdings import Effect, Holdings
from sim.parallel.memory import lasting_bytes
from sim.parallel.moments import Moment, StageContext
from sim.parallel.passes import BACKWARD, FORWARD, WEIGHT
from sim.program import COMPUTE, Task
from sim.results import MemoryRecord


def memory_records(contexts: Sequence[StageContext], timeline: Timeline) -> tuple[MemoryRecord, ...]:
    """One row per compute task and wait of every stage, the most that it holds in it; rows of a stage follow
    one another without gaps from the start of the step to its end."""
    return tuple(row for context in contexts for row in _stage(context, timeline))


def _stage(context: StageContext, timeline: Timeline) -> Iterator[MemoryRecord]:
    holdings, lasting = Holdings(context), lasting_bytes(context)
    rank = context.stage * context.layout.axes.stride("pp")
    held = now = 0.0

    def row(start_s: float, end_s: float, task: str, moment: Moment | None) -> MemoryRecord:
        activations = held + (moment.activations_bytes if moment else 0.0)
        gathered, reduction, transient = (
            (moment.gathered_bytes, moment.reduction_bytes, moment.transient_bytes)
            if moment
            else (0.0, 0.0, 0.0)
        )
        return MemoryRecord(
            stage=context.stage,
            rank=rank,
            start_s=start_s,
            end_s=end_s,
            task=task,
            moment=moment.name if moment else "",
            allocated_bytes=lasting + activations + gathered + reduction + transient,
            lasting_bytes=lasting,
            activations_bytes=activations,
            gathered_bytes=gathered,
            reduction_bytes=reduction,
            transient_bytes=transient,
        )

    tasks = [timeline.program.tasks[i] for i in timeline.program.order[context.stage].get(COMPUTE, ())]
    for task, effect in _effects(holdings, tasks):
        start, end = timeline.start_s[task.id], timeline.end_s[task.id]
        if start > now:
            yield row(now, start, "wait", None)
        yield row(start, end, task.name, _most(effect))
        held = max(0.0, held + effect.kept_bytes)
        now = end
    if now < timeline.makespan_s:
        yield row(now, timeline.makespan_s, "wait", None)


def _effects(holdings: Holdings, tasks: Sequence[Task]) -> Iterator[tuple[Task, Effect]]:
    """Compute tasks of a stage with what each changes: passes in the order of the slots, as one task or in pieces."""
    layout, at = holdings.context.layout, 0
    slots = iter(layout.slots[holdings.context.stage])
    while at < len(tasks):
        task = tasks[at]
        if not {FORWARD, BACKWARD, WEIGHT} & set(task.kind.split(" and ")):
            yield task, holdings.of_piece(task.kind, task.name, task.layers)
            at += 1
            continue
        slot = next(slots)
        if len(slot) > 1 or "layers " in task.name:
            yield task, holdings.of_slot(slot)
            at += 1
            continue
        place = slot[0].part % layout.depth
        pieces = layout.layers_of_part(slot[0].part) + (place == 0) + (place == layout.depth - 1)
        for piece in tasks[at : at + pieces]:
            yield (
                piece,
                holdings.of_piece(piece.kind, piece.name.removeprefix(f"{piece.kind} "), piece.layers),
            )
        at += pieces


def _most(effect: Effect) -> Moment | None:
    """The moment of the task, or its end where that holds more."""
    kept = Moment("", "", max(effect.kept_bytes, 0.0), 0.0)
    if effect.moment is None or kept.total_bytes > effect.moment.total_bytes:
        return kept if kept.activations_bytes else None
    return effect.moment

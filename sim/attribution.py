"""Whose fault each second is: causes along the last-finishing rank, and what communication hid.

The last rank's compute stream is walked from the start of the step to its end. Work is charged to its
own causes. A wait is charged to the task that ended it: to that task's cause while the task ran, to its
``wait_cause`` before that (a pipeline message still being computed elsewhere is bubble, and so are gradients
of another stage that the optimizer waits for). So the causes sum to the step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sim.engine.timeline import Timeline
from sim.pricing import Part, Price
from sim.program import COLLECTIVE, COMPUTE, Program, Task
from sim.results import Record


def last_role(timeline: Timeline) -> int:
    """The role whose step takes longest: whose compute stream ends last. The first of equals."""
    lasts = [end - start for start, end in timeline.spans_s]
    return max(range(len(lasts)), key=lambda role: (lasts[role], -role))


def breakdown(timeline: Timeline, prices: Sequence[Price]) -> dict[str, float]:
    """Seconds by cause along the last role; sums to the step."""
    seconds: dict[str, float] = defaultdict(float)
    role = last_role(timeline)
    now = timeline.spans_s[role][0]
    if timeline.program.staggered:
        now += _charge_ahead(seconds, timeline, prices, role)
    for task_id in timeline.program.order[role][COMPUTE]:
        start, end = timeline.start_s[task_id], timeline.end_s[task_id]
        if start > now:
            _charge_wait(seconds, timeline, prices, task_id, now)
        for part in prices[task_id].parts:
            seconds[part.cause] += part.seconds
        now = end
    return {cause: s for cause, s in seconds.items() if s > 0.0}


def _charge_ahead(seconds: dict[str, float], timeline: Timeline, prices: Sequence[Price], role: int) -> float:
    """What a staggered role's collectives do before its first computation; returns the seconds charged."""
    streams = timeline.program.order[role]
    begin, first = timeline.spans_s[role][0], timeline.start_s[streams[COMPUTE][0]]
    ahead = [i for i in streams.get(COLLECTIVE, ()) if timeline.start_s[i] < first]
    spent = sum(prices[i].seconds for i in ahead)
    for i in ahead:
        for part in prices[i].parts:
            seconds[part.cause] += (first - begin) * part.seconds / spent
    return first - begin if spent else 0.0


def _charge_wait(
    seconds: dict[str, float], timeline: Timeline, prices: Sequence[Price], task_id: int, since: float
) -> None:
    tasks, until = timeline.program.tasks, timeline.start_s[task_id]
    culprit = max(tasks[task_id].waits, key=lambda w: (timeline.end_s[w], -w))
    left = until - since
    if tasks[culprit].stream != COMPUTE:
        for other in _running(timeline, culprit, since):
            ran = min(until, timeline.end_s[other]) - max(since, timeline.start_s[other])
            ran = min(max(ran, 0.0), left)
            left -= ran
            for part in prices[other].parts:
                if prices[other].seconds:
                    seconds[part.cause] += ran * part.seconds / prices[other].seconds
    loading = min(left, _loading(timeline, since, until))
    if loading > 0.0:
        seconds["data"] += loading
    elsewhere = tasks[culprit].role != tasks[task_id].role and tasks[culprit].kind == "reduce"
    seconds["bubble" if elsewhere else tasks[culprit].wait_cause] += left - loading


def _loading(timeline: Timeline, since: float, until: float) -> float:
    """Seconds in which the first stage loads its samples in line: every other stage waits for them too."""
    first = timeline.program.order[0].get(COMPUTE, ())
    loads = (i for i in first[:2] if timeline.program.tasks[i].kind == "input")
    return sum(max(0.0, min(until, timeline.end_s[i]) - max(since, timeline.start_s[i])) for i in loads)


def _running(timeline: Timeline, culprit: int, since: float) -> Iterator[int]:
    """The culprit and its predecessors on the same stream that ended after ``since``, latest first."""
    task = timeline.program.tasks[culprit]
    order = timeline.program.order[task.role][task.stream]
    for position in range(_position(timeline.program, culprit), -1, -1):
        if timeline.end_s[order[position]] <= since:
            return
        yield order[position]


def _position(program: Program, task_id: int) -> int:
    """Index of a task in its stream; ids grow along a stream."""
    task = program.tasks[task_id]
    return bisect_left(program.order[task.role][task.stream], task_id)


def hidden(timeline: Timeline, prices: Sequence[Price]) -> dict[str, float]:
    """Seconds of the last role's communication that ran while its compute stream was busy, by cause."""
    role = last_role(timeline)
    streams = timeline.program.order[role]
    busy = [(timeline.start_s[i], timeline.end_s[i]) for i in streams.get(COMPUTE, ())]
    seconds: dict[str, float] = defaultdict(float)
    for stream, ids in streams.items():
        if stream == COMPUTE:
            continue
        cursor = 0
        for i in ids:
            start, end = timeline.start_s[i], timeline.end_s[i]
            while cursor < len(busy) and busy[cursor][1] <= start:
                cursor += 1
            overlap, at = 0.0, cursor
            while at < len(busy) and busy[at][0] < end:
                overlap += max(0.0, min(end, busy[at][1]) - max(start, busy[at][0]))
                at += 1
            for part in prices[i].parts:
                if prices[i].seconds:
                    seconds[part.cause] += overlap * part.seconds / prices[i].seconds
    return {cause: s for cause, s in seconds.items() if s > 0.0}


def records(timeline: Timeline, prices: Sequence[Price], ranks_per_role: int) -> tuple[Record, ...]:
    """One row per task and cause, in task order; the parts of a task follow one another in time.

    Layers folded into one task stay folded: its matrix products come as one row, and so on. Transfers that
    met others on a link took longer than their price.
    """
    rows: list[Record] = []
    for task in timeline.program.tasks:
        now, price = timeline.start_s[task.id], prices[task.id]
        slower = (timeline.end_s[task.id] - now) / price.seconds if price.seconds else 1.0
        for part in price.parts:
            seconds = part.seconds if task.stream == COMPUTE else part.seconds * slower
            rows.append(_record(task, part, now, seconds, ranks_per_role))
            now += seconds
    return tuple(rows)


def _record(task: Task, part: Part, start_s: float, seconds: float, ranks_per_role: int) -> Record:
    return Record(
        role=task.role,
        rank=task.role * ranks_per_role,
        stream=task.stream,
        task=task.name,
        kind=task.kind,
        cause=part.cause,
        start_s=start_s,
        end_s=start_s + seconds,
        bytes=part.bytes,
        flops=part.flops,
    )

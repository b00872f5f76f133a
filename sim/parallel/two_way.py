"""Schedules in which forwards of one way run beside backwards of the other.

DualPipe (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1) sends micro-batches in at both ends of
a pipeline that holds the model twice. DualPipeV (deepseek-ai/DualPipe) folds one model in the middle instead, so
that half as many stages hold it once. Both run the same eight phases; in the steady one each forward
shares its slot with a backward of the other way, whose experts it computes for while its own tokens travel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.parallel.passes import BACKWARD, FORWARD, WEIGHT, Pass, Slot

Slots = tuple[Slot, ...]


def dual_pipe(stages: int, microbatches: int) -> tuple[Slots, ...]:
    """Slots of every stage; the first half of the micro-batches comes in at stage 0, the rest at the last one.

    Raises ValueError for an odd number of stages or micro-batches, and for fewer than 2·stages micro-batches.
    """
    if reason := dual_pipe_needs(stages, microbatches):
        raise ValueError(reason)
    return tuple(_dual_pipe_stage(stage, stages, microbatches // 2) for stage in range(stages))


def dual_pipe_v(stages: int, microbatches: int) -> tuple[Slots, ...]:
    """Slots of every stage of the folded model.

    Raises ValueError for fewer than 2·stages micro-batches.
    """
    if reason := dual_pipe_v_needs(stages, microbatches):
        raise ValueError(reason)
    return tuple(
        _phases(_Ways(_Way(stage, 0), _Way(2 * stages - 1 - stage, 0)), stage, stages, microbatches)
        for stage in range(stages)
    )


def dual_pipe_needs(stages: int, microbatches: int) -> str:
    """What DualPipe lacks, in words; empty when it can run."""
    if stages % 2:
        return f"{stages} stages: dualpipe needs an even number, each half starts one way"
    if microbatches % 2:
        return f"{microbatches} micro-batches: dualpipe needs an even number, half of them for each way"
    if microbatches < 2 * stages:
        return f"{microbatches} micro-batches: dualpipe needs at least 2·pp = {2 * stages}"
    return ""


def dual_pipe_v_needs(stages: int, microbatches: int) -> str:
    """What DualPipeV lacks, in words; empty when it can run."""
    if microbatches < 2 * stages:
        return f"{microbatches} micro-batches: dualpipe-v needs at least 2·pp = {2 * stages}"
    return ""


def _dual_pipe_stage(stage: int, stages: int, each_way: int) -> Slots:
    """Stages of the second half do what their mirror images do, with the ways exchanged."""
    down, up = _Way(stage, 0), _Way(2 * stages - 1 - stage, each_way)
    place = min(stage, stages - 1 - stage)
    ways = _Ways(down, up) if place == stage else _Ways(up, down)
    return _phases(ways, place, stages // 2, each_way)


@dataclass
class _Way:
    """One of the two parts of a stage: how far its passes are."""

    part: int
    first: int  # micro-batch
    forwards: int = 0
    backwards: int = 0

    def forward(self) -> Pass:
        self.forwards += 1
        return Pass(FORWARD, self.part, self.first + self.forwards - 1)

    def backward(self) -> tuple[Pass, Pass]:
        """Input gradient and weight gradient."""
        self.backwards += 1
        microbatch = self.first + self.backwards - 1
        return Pass(BACKWARD, self.part, microbatch), Pass(WEIGHT, self.part, microbatch)


@dataclass
class _Ways:
    """Both parts of a stage and the weight gradients that were put off, oldest first."""

    near: _Way  # the part that its micro-batches meet first
    far: _Way
    due: deque[Pass] = field(default_factory=deque)

    def whole(self, way: _Way) -> Slot:
        return way.backward()

    def beside(self, way: _Way, other: _Way) -> Slot:
        """A forward of ``way`` and a whole backward of the ``other``."""
        return (way.forward(), *other.backward())

    def split(self, way: _Way) -> Slot:
        backward, weight = way.backward()
        self.due.append(weight)
        return (backward,)

    def weight(self) -> Slot:
        return (self.due.popleft(),)


def _phases(ways: _Ways, place: int, turn: int, each_way: int) -> Slots:
    """``place`` of ``turn`` places from an end of the pipeline to its middle; the last one lies in the middle."""
    return tuple(_slots(ways, place, turn - 1 - place, each_way))


def _slots(ways: _Ways, place: int, inward: int, each_way: int) -> Iterator[Slot]:
    """``inward``: places that lie further in."""
    near, far = ways.near, ways.far
    for _ in range(2 * inward):
        yield (near.forward(),)
    for _ in range(place + 1):
        yield (near.forward(),)
        yield (far.forward(),)
    for _ in range(inward):
        yield ways.split(far)
        yield ways.weight()
        yield (far.forward(),)
    for turn in range(each_way - 2 * inward - place - 1):
        if turn or inward:
            yield ways.beside(near, far)
        else:  # in the middle the first forward need not wait for the backward
            yield (near.forward(),)
            yield ways.whole(far)
        yield ways.beside(far, near)
    for _ in range(inward):
        yield ways.whole(far)
        yield ways.beside(far, near)
    for count in range(2 * (place + 1)):
        way = near if count % 2 else far
        yield ways.whole(way) if count <= place else ways.split(way)
    for _ in range(inward):
        yield ways.weight()
        yield ways.split(near)
    while ways.due:
        yield ways.weight()

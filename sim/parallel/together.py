"""Slots of several passes: one task, in which a forward and a backward hide each other's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sim.ops import TokenExchange
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.schedule import BACKWARD, FORWARD, WEIGHT, Slot
from sim.parallel.stage import Part, folded
from sim.program import COMPUTE, Work


class Together:
    """Adds slots as tasks. Every pass of a slot is known by its own key, ``(kind, part, micro-batch, 0)``.

    Beside a backward of other micro-batches a forward's tokens travel to experts under its compute, and the
    other way round; what does not fit under the compute of both is exposed (``sim.pricing``).
    """

    def __init__(self) -> None:
        self._works: dict[tuple[tuple[str, int], ...], tuple[Work, ...]] = {}

    def run(
        self, builder: ProgramBuilder, parts: Mapping[int, Part], slot: Slot, waits: tuple[Key, ...]
    ) -> Key:
        first = slot[0]
        named = [one for one in slot if one.kind != WEIGHT]
        key = builder.add(
            ("together", *first),
            parts[first.part].stage,
            COMPUTE,
            " and ".join(one.kind for one in named),
            " and ".join(f"{one.kind} {parts[one.part].whole.name}" for one in named),
            self._work(parts, slot),
            waits=waits,
            microbatch=first.microbatch,
            layers=parts[first.part].whole.layers,
        )
        for one in slot:
            builder.also(key, (one.kind, one.part, one.microbatch, 0))
        return key

    def _work(self, parts: Mapping[int, Part], slot: Slot) -> tuple[Work, ...]:
        """One tuple for all slots that are alike: it is priced once."""
        alike = tuple((one.kind, one.part) for one in slot)
        if alike not in self._works:
            works = [work for one in slot for work in parts[one.part].whole.work(one.kind)]
            if {FORWARD, BACKWARD} <= {one.kind for one in slot}:
                works = [_beside_compute(work) for work in works]
            self._works[alike] = folded(works)
        return self._works[alike]


def _beside_compute(work: Work) -> Work:
    if isinstance(work.op, TokenExchange) and not work.op.beside:
        return replace(work, op=replace(work.op, beside="compute"))
    return work

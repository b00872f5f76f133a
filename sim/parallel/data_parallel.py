"""What every scheme of data parallelism answers to a plan, and what all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.layout import Layout
from sim.parallel.offload import BUFFERS, ActivationOffload
from sim.parallel.schedule import FORWARD, Pass
from sim.parallel.stage import Part, Piece, Stage
from sim.program import COMPUTE


class DataParallel(Protocol):
    """Adds the passes of a stage with the exchanges that belong to them."""

    def prepare(self, builder: ProgramBuilder, stage: Stage) -> None:
        """Exchanges that come before the first pass of ``stage``."""

    def run(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        """One pass; its first task waits for ``waits`` too."""

    def follow(self, builder: ProgramBuilder, part: Part, one: Pass, after: Key) -> None:
        """The exchanges that belong to a pass which ran in a slot with others, as the task ``after``."""

    def end(self, part: Part, one: Pass) -> Key:
        """Key of the task whose end completes a pass."""

    def finish(self, builder: ProgramBuilder, stage: Stage, after: Key) -> None:
        """Reductions that come after the last pass, whose end is ``after``."""

    def gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        """Reductions after which the gradients of ``stage`` are final."""

    def publish(self, builder: ProgramBuilder, stage: Stage, updated: Key) -> Key:
        """Exchanges after the optimizer step ``updated``; the key of the last one, or ``updated``."""


@dataclass(frozen=True)
class Milestones:
    """When a part of the model is met first, when its gradients are complete, and what came before a pass."""

    layout: Layout

    @cached_property
    def final(self) -> dict[int, Pass]:
        """By part: the pass after which its gradients are complete."""
        final: dict[int, Pass] = {}
        for order in self.layout.orders:
            final |= {one.part: one for one in order if one.kind != FORWARD}
        return final

    @cached_property
    def first_forward(self) -> dict[int, Pass]:
        """By part: the pass that meets its parameters first."""
        first: dict[int, Pass] = {}
        for order in self.layout.orders:
            for one in order:
                first.setdefault(one.part, one)
        return first

    @cached_property
    def before(self) -> dict[Pass, Pass | None]:
        """The pass that the same stage issues before each one."""
        orders = self.layout.orders
        return {one: earlier for order in orders for earlier, one in zip((None, *order), order, strict=False)}


def in_order(pieces: tuple[Piece, ...], kind: str) -> tuple[Piece, ...]:
    """Pieces of a part in the order in which a pass runs them."""
    return pieces if kind == FORWARD else tuple(reversed(pieces))


def compute(
    builder: ProgramBuilder,
    part: Part,
    one: Pass,
    piece: Piece,
    position: int,
    *,
    waits: tuple[Key, ...],
    window: str | None,
    offload: ActivationOffload | None = None,
) -> Key:
    """Adds the ``position``-th task of a pass, and the copy to or from the host that belongs to it."""
    key = builder.add(
        (one.kind, part.index, one.microbatch, position),
        part.stage,
        COMPUTE,
        one.kind,
        f"{one.kind} {piece.name}",
        piece.work(one.kind),
        waits=waits if offload is None else (*waits, *offload.waits(one, piece.layers)),
        microbatch=one.microbatch,
        layers=piece.layers,
        window=window,
    )
    if offload is not None:
        earlier = position - BUFFERS - 1
        before: Key | None = (one.kind, part.index, one.microbatch, earlier) if earlier >= 0 else None
        architecture = part.shard.workload.architecture
        routed = architecture.kind(min(piece.layers[0], architecture.layers - 1)).routed
        offload.copy(builder, one, piece.layers, key, before, routed=routed)
    return key

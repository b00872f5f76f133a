"""Data parallelism with parameters that are sharded too, and gathered where they are used: FSDP, HSDP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.data_parallel import Milestones, compute, in_order
from sim.parallel.layer_work import total
from sim.parallel.layout import Layout
from sim.parallel.replica_exchange import ReplicaExchange
from sim.parallel.schedule import BACKWARD, FORWARD, Pass
from sim.parallel.stage import Part, Piece, Stage
from sim.parallel.strategy import Strategy


@dataclass(frozen=True)
class FullySharded:
    """Gathers run ``prefetch`` layers ahead of the compute that needs them; reductions follow it.

    Embedding and head form one root unit, gathered first and kept until the backward ends.
    """

    layout: Layout
    strategy: Strategy
    exchange: ReplicaExchange

    @cached_property
    def milestones(self) -> Milestones:
        return Milestones(self.layout)

    @property
    def prefetch(self) -> int:
        """Layers gathered ahead; without overlap every gather and reduction is waited for."""
        return self.strategy.prefetch if self.strategy.overlap_dp else 0

    def prepare(self, builder: ProgramBuilder, stage: Stage) -> None:
        """Nothing: the first pass gathers what it needs."""

    def run(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        if one.kind == FORWARD:
            self._forward(builder, part, one, waits)
        else:
            self._backward(builder, part, one)

    def end(self, part: Part, one: Pass) -> Key:
        return (one.kind, part.index, one.microbatch, len(part.pieces) - 1)

    def finish(self, builder: ProgramBuilder, stage: Stage, after: Key) -> None:
        """Nothing: every backward reduces its own gradients."""

    def gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        if not self.exchange.needed:
            return ()
        part, m = stage.parts[0], self.milestones.final[stage.index].microbatch
        pieces = [p for p in in_order(part.pieces, BACKWARD) if p.parameters]
        roots = [p for p in pieces if not _is_layer(p)]
        return (("RS", m, "root") if roots else ("RS", m, pieces[-1].name),)

    def publish(self, builder: ProgramBuilder, stage: Stage, updated: Key) -> Key:  # noqa: ARG002
        """Nothing: the next step gathers what the optimizer updated."""
        return updated

    def _forward(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        pieces, microbatch = part.pieces, one.microbatch
        communicates = self.exchange.needed
        root: Key = ("AG", FORWARD, microbatch, "root")
        if communicates:
            previous: tuple[Key, ...] = ()
            if microbatch > 0:
                previous = (self.end(part, Pass(BACKWARD, part.index, microbatch - 1)),)
            parameters = total(p.gathered for p in pieces if not _is_layer(p))
            self.exchange.gather(builder, part.stage, root, parameters, previous, None, microbatch)
        for i, piece in enumerate(pieces):
            if communicates and _is_layer(piece):
                self._gather_layer(builder, part, one, i, piece, root)
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", FORWARD, microbatch, piece.name)
            need = gather if builder.has(gather) else root
            needs = (waits if i == 0 else ()) + ((need,) if communicates else ())
            compute(builder, part, one, piece, i, waits=needs, window=self._window(one, i))

    def _gather_layer(
        self, builder: ProgramBuilder, part: Part, one: Pass, position: int, piece: Piece, first: Key
    ) -> None:
        """Starts when the compute ``prefetch`` places before its own consumer starts."""
        before = position - 1 - self.prefetch
        waits: tuple[Key, ...] = (
            ((one.kind, part.index, one.microbatch, before),) if before >= 0 else (first,)
        )
        beside = position - 1 if self.prefetch else None
        window = None if beside is None or beside < 0 else self._window(one, beside)
        key: Key = ("AG", one.kind, one.microbatch, piece.name)
        self.exchange.gather(builder, part.stage, key, piece.gathered, waits, window, one.microbatch)

    def _backward(self, builder: ProgramBuilder, part: Part, one: Pass) -> None:
        pieces, microbatch = in_order(part.pieces, BACKWARD), one.microbatch
        communicates = self.exchange.needed
        forward_end = self.end(part, Pass(FORWARD, part.index, microbatch))
        pending: list[tuple[Piece, int]] = []
        for i, piece in enumerate(pieces):
            if communicates and _is_layer(piece) and self.strategy.reshard:
                self._gather_layer(builder, part, one, i, piece, forward_end)
            reduced: tuple[Key, ...] = ()
            if communicates and len(pending) > self.prefetch:
                key = self._reduce_layer(builder, part, one, *pending.pop(0))
                reduced = () if self.strategy.overlap_dp else key
            gather: Key = ("AG", BACKWARD, microbatch, piece.name)
            needs = ((gather,) if builder.has(gather) else (forward_end,)) + reduced
            compute(builder, part, one, piece, i, waits=needs, window=self._window(one, i))
            if _is_layer(piece):
                pending.append((piece, i))
        if not communicates:
            return
        while pending:
            self._reduce_layer(builder, part, one, *pending.pop(0))
        roots = total(p.parameters for p in pieces if not _is_layer(p))
        if roots:
            last: Key = ("RS", microbatch, "root")
            self.exchange.reduce(builder, part.stage, last, roots, self.end(part, one), None, microbatch)

    def _reduce_layer(
        self, builder: ProgramBuilder, part: Part, one: Pass, piece: Piece, position: int
    ) -> tuple[Key, ...]:
        if not piece.parameters:
            return ()
        beside = position + 1
        window = None if beside >= len(part.pieces) else self._window(one, beside)
        after: Key = (BACKWARD, part.index, one.microbatch, position)
        key: Key = ("RS", one.microbatch, piece.name)
        self.exchange.reduce(builder, part.stage, key, piece.parameters, after, window, one.microbatch)
        return (key,)

    def _window(self, one: Pass, position: int) -> str | None:
        if not self.strategy.overlap_dp or not self.exchange.needed:
            return None
        return f"{one.kind}/{one.microbatch}/{position}"


def _is_layer(piece: Piece) -> bool:
    """Not the embedding or the head."""
    return piece.layers[1] > piece.layers[0]

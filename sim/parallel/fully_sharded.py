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

    Embedding and head of a part form one root unit, gathered first and kept until the backward ends; beside
    a pipeline, where other micro-batches are under way then, until the step ends. A pass gathers its first
    layers once the pass before it on its stage is over.
    """

    layout: Layout
    strategy: Strategy
    exchange: ReplicaExchange
    parts: tuple[Part, ...]  # in model order

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
        waits = (*waits, *self._reductions_before(builder, one))
        if one.kind == FORWARD:
            self._forward(builder, part, one, waits)
        else:
            self._backward(builder, part, one, waits)

    def follow(self, builder: ProgramBuilder, part: Part, one: Pass, after: Key) -> None:
        """Nothing: the schedules with such slots are refused beside it."""

    def end(self, part: Part, one: Pass) -> Key:
        return (one.kind, part.index, one.microbatch, len(self._pieces(part, one)) - 1)

    def finish(self, builder: ProgramBuilder, stage: Stage, after: Key) -> None:
        """Nothing: backward passes reduce their own gradients."""

    def gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        if not self.exchange.needed:
            return ()
        return tuple(
            key
            for part in stage.parts
            for key in self._last_reduction(part, self.milestones.final[part.index])
        )

    def publish(self, builder: ProgramBuilder, stage: Stage, updated: Key) -> Key:  # noqa: ARG002
        """Nothing: the next step gathers what the optimizer updated."""
        return updated

    # -- which pass exchanges what -------------------------------------------------------------------

    def _gathers(self, part: Part, one: Pass) -> bool:
        """Layers that stay gathered are so from a part's first forward on; without a pipeline, from each one."""
        if not self.exchange.needed or one.kind not in (FORWARD, BACKWARD):
            return False
        if self.strategy.reshard:
            return True
        return one.kind == FORWARD and (
            self.layout.pp == 1 or one == self.milestones.first_forward[part.index]
        )

    def _reduces(self, part: Part, one: Pass) -> bool:
        final = self.milestones.final[part.index]
        if not self.exchange.needed or one.kind != final.kind:
            return False
        return self.layout.gradient_sync == "every" or one == final

    def _pieces(self, part: Part, one: Pass) -> tuple[Piece, ...]:
        """Pieces in execution order; the whole part where nothing inside it is exchanged."""
        fine = self.layout.pp == 1 or self._gathers(part, one) or self._reduces(part, one)
        return in_order(part.pieces if fine else (part.whole,), one.kind)

    def _end_before(self, one: Pass) -> tuple[Key, ...]:
        """The end of the pass before ``one`` on its stage."""
        before = self.milestones.before[one]
        return () if before is None else (self.end(self.parts[before.part], before),)

    def _reductions_before(self, builder: ProgramBuilder, one: Pass) -> tuple[Key, ...]:
        """Without overlap a stage goes on when the reductions of its last pass are over."""
        before = self.milestones.before[one]
        if before is None or self.strategy.overlap_dp or self.layout.pp == 1:
            return ()
        return tuple(key for key in self._last_reduction(self.parts[before.part], before) if builder.has(key))

    def _last_reduction(self, part: Part, one: Pass) -> tuple[Key, ...]:
        pieces = [p for p in in_order(part.pieces, BACKWARD) if p.parameters]
        if not pieces:
            return ()
        roots = any(not _is_layer(p) for p in pieces)
        return (("RS", part.index, one.microbatch, "root" if roots else pieces[-1].name),)

    # -- passes ------------------------------------------------------------------------------------

    def _forward(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        pieces = self._pieces(part, one)
        root = self._gather_root(builder, part, one)
        first = (root,) if root is not None else self._end_before(one)
        kept = self._root_key(part, one)
        if self._gathers(part, one):
            for i, piece in enumerate(pieces):
                if _is_layer(piece):
                    self._gather_layer(builder, part, one, i, piece, first)
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", FORWARD, part.index, one.microbatch, piece.name)
            need = tuple(key for key in (gather, kept) if builder.has(key))[:1]
            needs = (waits if i == 0 else ()) + need
            self._compute(builder, part, one, piece, i, needs)

    def _compute(
        self,
        builder: ProgramBuilder,
        part: Part,
        one: Pass,
        piece: Piece,
        position: int,
        waits: tuple[Key, ...],
    ) -> None:
        window, offload = self._window(one, position), self.strategy.offload
        compute(builder, part, one, piece, position, waits=waits, window=window, offload=offload)

    def _root_key(self, part: Part, one: Pass) -> Key:
        """One root gather per micro-batch, beside a pipeline one per step."""
        return ("AG", FORWARD, part.index, one.microbatch if self.layout.pp == 1 else 0, "root")

    def _gather_root(self, builder: ProgramBuilder, part: Part, one: Pass) -> Key | None:
        """Its key if this pass gathers it."""
        parameters = total(p.gathered for p in part.pieces if not _is_layer(p))
        key = self._root_key(part, one)
        if not self.exchange.needed or builder.has(key) or not (parameters or self.layout.pp == 1):
            return None
        before = self._end_before(one)
        self.exchange.gather(builder, part.stage, key, parameters, before, None, one.microbatch)
        return key

    def _gather_layer(
        self,
        builder: ProgramBuilder,
        part: Part,
        one: Pass,
        position: int,
        piece: Piece,
        first: tuple[Key, ...],
    ) -> None:
        """Starts when the compute ``prefetch`` places before its own consumer starts, or after ``first``."""
        before = position - 1 - self.prefetch
        waits = ((one.kind, part.index, one.microbatch, before),) if before >= 0 else first
        beside = position - 1 if self.prefetch else None
        window = None if beside is None or beside < 0 else self._window(one, beside)
        key: Key = ("AG", one.kind, part.index, one.microbatch, piece.name)
        self.exchange.gather(builder, part.stage, key, piece.gathered, waits, window, one.microbatch)

    def _backward(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        """Input gradients, weight gradients, or both of them."""
        pieces = self._pieces(part, one)
        gathers, reduces = self._gathers(part, one), self._reduces(part, one)
        first = self._end_before(one)
        forward_end = self.end(part, Pass(FORWARD, part.index, one.microbatch))
        pending: list[tuple[Piece, int]] = []
        for i, piece in enumerate(pieces):
            if gathers and _is_layer(piece):
                self._gather_layer(builder, part, one, i, piece, first)
            reduced: tuple[Key, ...] = ()
            if reduces and len(pending) > self.prefetch:
                key = self._reduce_layer(builder, part, one, *pending.pop(0))
                reduced = () if self.strategy.overlap_dp else key
            gather: Key = ("AG", one.kind, part.index, one.microbatch, piece.name)
            needs = (
                (waits if i == 0 else ()) + ((gather,) if builder.has(gather) else (forward_end,)) + reduced
            )
            self._compute(builder, part, one, piece, i, needs)
            if _is_layer(piece):
                pending.append((piece, i))
        if reduces:
            self._reduce_rest(builder, part, one, pending)

    def _reduce_rest(
        self, builder: ProgramBuilder, part: Part, one: Pass, pending: list[tuple[Piece, int]]
    ) -> None:
        for piece, position in pending:
            self._reduce_layer(builder, part, one, piece, position)
        roots = total(p.parameters for p in in_order(part.pieces, BACKWARD) if not _is_layer(p))
        if roots:
            key: Key = ("RS", part.index, one.microbatch, "root")
            self.exchange.reduce(builder, part.stage, key, roots, self.end(part, one), None, one.microbatch)

    def _reduce_layer(
        self, builder: ProgramBuilder, part: Part, one: Pass, piece: Piece, position: int
    ) -> tuple[Key, ...]:
        if not piece.parameters:
            return ()
        beside = position + 1
        window = None if beside >= len(part.pieces) else self._window(one, beside)
        after: Key = (one.kind, part.index, one.microbatch, position)
        key: Key = ("RS", part.index, one.microbatch, piece.name)
        self.exchange.reduce(builder, part.stage, key, piece.parameters, after, window, one.microbatch)
        return (key,)

    def _window(self, one: Pass, position: int) -> str | None:
        if not self.strategy.overlap_dp or not self.exchange.needed:
            return None
        return f"{one.kind}/{one.part}/{one.microbatch}/{position}"


def _is_layer(piece: Piece) -> bool:
    """Not the embedding or the head."""
    return piece.layers[1] > piece.layers[0]

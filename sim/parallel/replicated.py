"""Data parallelism with parameters that every replica holds whole: DDP, ZeRO-1 and ZeRO-2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.data_parallel import Milestones, compute, in_order
from sim.parallel.layer_work import total
from sim.parallel.layout import Layout
from sim.parallel.replica_exchange import ReplicaExchange
from sim.parallel.schedule import Pass
from sim.parallel.stage import Part, Piece, Stage
from sim.parallel.strategy import Strategy


@dataclass(frozen=True)
class Replicated:
    """Gradients leave piece by piece behind the backward that completes them, or all together after it."""

    layout: Layout
    strategy: Strategy
    exchange: ReplicaExchange
    parts: tuple[Part, ...]  # in model order

    @cached_property
    def milestones(self) -> Milestones:
        return Milestones(self.layout)

    @property
    def zero_2(self) -> bool:
        return self.layout.data_sharding == "zero-2"

    @property
    def gathers_updates(self) -> bool:
        """Whether each replica updates a shard of the parameters and all of them gather the rest."""
        return self.exchange.needed and self.layout.data_sharding in ("zero-1", "zero-2")

    def prepare(self, builder: ProgramBuilder, stage: Stage) -> None:
        """ZeRO-1: the parameters the last step updated arrive while its first forward runs.

        Only the first stage computes meanwhile; the others wait for their first micro-batch.
        """
        if not (self.gathers_updates and self.strategy.overlap_dp):
            return
        for part in stage.parts:
            for i, piece in enumerate(part.pieces):
                if piece.parameters:
                    window = f"gather/{part.index}" if i > 0 and part.has_embedding else None
                    key: Key = ("AG", part.index, piece.name)
                    self.exchange.gather(builder, stage.index, key, piece.parameters, (), window)

    def run(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        pieces = self._pieces(part, one)
        reduction = self._reduction(part, one)
        reduces = reduction is not None and self.strategy.overlap_dp
        beside = "reduce" + "".join(f"/{word}" for word in (reduction or ())[1:])
        before = self.milestones.before[one]
        freed: Key = () if before is None else ("RS", before.part, before.microbatch, "all gradients")
        if builder.has(freed):
            waits = (*waits, freed)
        meets = one == self.milestones.first_forward[part.index]
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", part.index, piece.name)
            gathered = meets and builder.has(gather)
            window = None
            if reduces and i > 0:
                window = beside
            elif gathered and part.has_embedding and i < len(pieces) - 1:
                window = f"gather/{part.index}"
            needs = (waits if i == 0 else ()) + ((gather,) if gathered else ())
            key = compute(builder, part, one, piece, i, waits=needs, window=window)
            if reduces and reduction is not None and piece.parameters:
                hidden = None if i == len(pieces) - 1 else beside
                name: Key = (*reduction, piece.name)
                self.exchange.reduce(builder, part.stage, name, piece.parameters, key, hidden)
        if reduction and not reduces and one != self.milestones.final[part.index]:
            whole = (*reduction, "all gradients")
            parameters = total(piece.parameters for piece in pieces)
            self.exchange.reduce(builder, part.stage, whole, parameters, self.end(part, one), None)

    def follow(self, builder: ProgramBuilder, part: Part, one: Pass, after: Key) -> None:
        """Gradients that are complete leave piece by piece, beside what comes next."""
        reduction = self._reduction(part, one)
        if reduction is None or not self.strategy.overlap_dp:
            return
        for piece in reversed(part.pieces):
            if piece.parameters:
                key: Key = (*reduction, piece.name)
                self.exchange.reduce(builder, part.stage, key, piece.parameters, after, None)

    def end(self, part: Part, one: Pass) -> Key:
        return (one.kind, part.index, one.microbatch, len(self._pieces(part, one)) - 1)

    def finish(self, builder: ProgramBuilder, stage: Stage, after: Key) -> None:
        """Without overlap the exchange follows the last pass in one piece."""
        if self.exchange.needed and not self.strategy.overlap_dp and stage.parameters:
            key: Key = ("RS", stage.index, "all gradients")
            self.exchange.reduce(builder, stage.index, key, stage.parameters, after, None)

    def gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        if not (self.exchange.needed and stage.parameters):
            return ()
        if not self.strategy.overlap_dp:
            return (("RS", stage.index, "all gradients"),)
        lasts = ([p for p in part.pieces if p.parameters][:1] for part in stage.parts)
        return tuple(
            ("RS", part.index, piece.name)
            for part, last in zip(stage.parts, lasts, strict=True)
            for piece in last
        )

    def publish(self, builder: ProgramBuilder, stage: Stage, updated: Key) -> Key:
        """Without overlap all updated parameters are gathered at once, after the optimizer."""
        if not self.gathers_updates or self.strategy.overlap_dp:
            return updated
        key: Key = ("AG", stage.index, "all parameters")
        self.exchange.gather(builder, stage.index, key, stage.parameters, (updated,), None)
        return key

    def _pieces(self, part: Part, one: Pass) -> tuple[Piece, ...]:
        """Pieces in execution order; whole parts where nothing inside them is waited on."""
        fine = self.layout.pp == 1
        if self.exchange.needed and self.strategy.overlap_dp and one not in self.layout.together:
            fine |= self._reduction(part, one) is not None
            fine |= one == self.milestones.first_forward[part.index] and self.gathers_updates
        return in_order(part.pieces if fine else (part.whole,), one.kind)

    def _reduction(self, part: Part, one: Pass) -> Key | None:
        """First words of the keys of the reductions after a pass: one per step, under ZeRO-2 per micro-batch."""
        if not self.exchange.needed:
            return None
        final = self.milestones.final[part.index]
        if one == final:
            return ("RS", part.index)
        return ("RS", part.index, one.microbatch) if self.zero_2 and one.kind == final.kind else None

"""Data parallelism with parameters that every replica holds whole: DDP, ZeRO-1 and ZeRO-2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.parallel.buckets import Bucket
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
    """Gradients leave bucket by bucket behind the backward that completes them, or all together after it."""

    layout: Layout
    strategy: Strategy
    exchange: ReplicaExchange
    parts: tuple[Part, ...]  # in model order

    @cached_property
    def milestones(self) -> Milestones:
        return Milestones(self.layout)

    @cached_property
    def buckets(self) -> tuple[tuple[Bucket, ...], ...]:
        """Of each part, in the order in which its backward completes them."""
        return tuple(self.strategy.buckets.of(part) for part in self.parts)

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
            for bucket in reversed(self.buckets[part.index]):
                first = part.pieces[0].name in bucket.pieces
                window = f"gather/{part.index}" if part.has_embedding and not first else None
                key: Key = ("AG", part.index, bucket.name)
                self.exchange.gather(
                    builder,
                    stage.index,
                    key,
                    bucket.parameters,
                    (),
                    window,
                    collectives=bucket.collectives,
                )

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
        first = self._first_complete(part, pieces)
        for i, piece in enumerate(pieces):
            bucket = self._bucket_with(part, piece)
            gather: Key = () if bucket is None else ("AG", part.index, bucket.name)
            gathered = meets and builder.has(gather)
            window = beside if reduces and i > first else None
            if not reduces and gathered and bucket is not None and self._more_to_gather(part, bucket):
                window = f"gather/{part.index}"
            needs = (waits if i == 0 else ()) + ((gather,) if gathered else ())
            key = compute(
                builder, part, one, piece, i, waits=needs, window=window, offload=self.strategy.offload
            )
            if reduces and reduction is not None and bucket is not None and piece.name == bucket.pieces[-1]:
                hidden = None if i == len(pieces) - 1 else beside
                self._reduce(builder, part, (*reduction, bucket.name), bucket, key, hidden)
        if reduction and not reduces and one != self.milestones.final[part.index]:
            whole = (*reduction, "all gradients")
            parameters = total(piece.parameters for piece in pieces)
            self.exchange.reduce(builder, part.stage, whole, parameters, self.end(part, one), None)

    def follow(self, builder: ProgramBuilder, part: Part, one: Pass, after: Key) -> None:
        """Gradients that are complete leave bucket by bucket, beside what comes next."""
        reduction = self._reduction(part, one)
        if reduction is None or not self.strategy.overlap_dp:
            return
        for bucket in self.buckets[part.index]:
            self._reduce(builder, part, (*reduction, bucket.name), bucket, after, None)

    def _reduce(
        self, builder: ProgramBuilder, part: Part, key: Key, bucket: Bucket, after: Key, window: str | None
    ) -> None:
        self.exchange.reduce(
            builder, part.stage, key, bucket.parameters, after, window, collectives=bucket.collectives
        )

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
        return tuple(
            ("RS", part.index, bucket.name)
            for part in stage.parts
            for bucket in self.buckets[part.index][-1:]
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

    def _first_complete(self, part: Part, pieces: tuple[Piece, ...]) -> int:
        """Position of the piece that completes the first bucket: what comes after it runs beside reductions."""
        buckets = self.buckets[part.index]
        if self.strategy.buckets.parameters is None or not buckets:
            return 0
        last = buckets[0].pieces[-1]
        return next((i for i, piece in enumerate(pieces) if piece.name == last), len(pieces))

    def _more_to_gather(self, part: Part, bucket: Bucket) -> bool:
        """Whether buckets arrive beside the first forward once this one has; only the first stage computes then."""
        return part.has_embedding and part.pieces[-1].name not in bucket.pieces

    def _bucket_with(self, part: Part, piece: Piece) -> Bucket | None:
        return next((b for b in self.buckets[part.index] if piece.name in b.pieces), None)

    def _reduction(self, part: Part, one: Pass) -> Key | None:
        """First words of the keys of the reductions after a pass: one per step, under ZeRO-2 per micro-batch."""
        if not self.exchange.needed:
            return None
        final = self.milestones.final[part.index]
        if one == final:
            return ("RS", part.index)
        return ("RS", part.index, one.microbatch) if self.zero_2 and one.kind == final.kind else None

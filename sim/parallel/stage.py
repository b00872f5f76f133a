"""Pipeline stages and their parts of the model, cut into pieces: as coarse as their dependencies permit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sim.parallel.layer_work import LayerWork, Weights, total
from sim.parallel.schedule import BACKWARD, FORWARD, SPLIT, WEIGHT
from sim.parallel.sharding import Shard
from sim.program import Work


@dataclass(frozen=True)
class Piece:
    """A run of consecutive work inside a part. ``name`` is a layer id, ``embedding`` or ``head``.

    ``weight`` is empty where the schedule does not split the backward.
    """

    name: str
    layers: tuple[int, int]
    forward: tuple[Work, ...]
    backward: tuple[Work, ...]
    weight: tuple[Work, ...]
    parameters: Weights  # trainable, on this rank
    gathered: Weights  # what a full-shard scheme must gather for it

    def work(self, kind: str) -> tuple[Work, ...]:
        return {FORWARD: self.forward, BACKWARD: self.backward, WEIGHT: self.weight}[kind]


@dataclass(frozen=True)
class Part:
    """Layers [first, last) of the model; the ``index``-th part in model order, on one rank of a stage."""

    shard: Shard
    index: int

    @cached_property
    def stage(self) -> int:
        return self.shard.layout.placement.stage(self.index)

    @property
    def first(self) -> int:
        return self.shard.layout.first_layer(self.index)

    @property
    def last(self) -> int:
        return self.first + self.shard.layout.layers_of_part(self.index)

    @property
    def has_embedding(self) -> bool:
        return self.index % self.shard.layout.depth == 0

    @property
    def has_head(self) -> bool:
        return self.index % self.shard.layout.depth == self.shard.layout.depth - 1

    @property
    def split(self) -> bool:
        """Whether weight gradients are a pass of their own."""
        return self.shard.layout.schedule in SPLIT

    @property
    def parameters(self) -> Weights:
        """Trainable parameters on one rank."""
        return total(p.parameters for p in self.pieces)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Embedding, layers, head: the finest cut."""
        shard, layout = self.shard, self.shard.layout
        pieces = [self._embedding] if self.has_embedding else []
        for layer in range(self.first, self.last):
            again = layout.recomputes(self.index, layer)
            pieces.append(self._piece(f"layer {layer}", (layer, layer + 1), shard.layer(layer), again))
        if self.has_head:
            pieces.append(self._head)
        return tuple(pieces)

    @property
    def _embedding(self) -> Piece:
        """Nothing waits for the gradient of a table, so it is not split."""
        shard = self.shard
        table = shard.workload.architecture.embedding_parameters / shard.layout.tp
        return Piece(
            "embedding",
            (self.first, self.first),
            shard.embedding_forward,
            shard.embedding_backward,
            (),
            Weights(shard.embedding_parameters),
            Weights(table),
        )

    @property
    def _head(self) -> Piece:
        """Not split either: a weight gradient put off would keep the gradient of all logits (docs/adr/010)."""
        work = self.shard.head
        return Piece(
            "head",
            (self.last, self.last),
            work.forward,
            (*self._further_again, *work.backward),
            (),
            work.parameters,
            work.gathered,
        )

    @property
    def _further_again(self) -> tuple[Work, ...]:
        """Recomputation of the layers that predict further tokens; their ids follow those of the model."""
        layers = self.shard.workload.architecture.layers
        again = sum(layer >= layers for layer in self.shard.layout.recomputed_ids or ())
        works = self.shard.layer(layers - 1).recompute if again else ()
        return tuple(Work(work.op, work.cause, work.count * again) for work in works)

    def _piece(self, name: str, layers: tuple[int, int], work: LayerWork, again: bool) -> Piece:
        backward = work.backward_input if self.split else work.backward
        return Piece(
            name,
            layers,
            work.forward,
            (*(work.recompute if again else ()), *backward),
            work.backward_weight if self.split else (),
            work.parameters,
            work.gathered,
        )

    @cached_property
    def whole(self) -> Piece:
        """The part as one piece: identical works of its layers are counted, not repeated."""
        backwards = tuple(reversed(self.pieces))
        return Piece(
            f"layers {self.first}-{self.last - 1}" if self.last > self.first else self.pieces[0].name,
            (self.first, self.last),
            folded(w for p in self.pieces for w in p.forward),
            folded(w for p in backwards for w in p.backward),
            folded(w for p in backwards for w in p.weight),
            self.parameters,
            total(p.gathered for p in self.pieces),
        )


@dataclass(frozen=True)
class Stage:
    """One rank of the pipeline and the parts of the model that it holds."""

    shard: Shard
    index: int

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """In model order."""
        return tuple(Part(self.shard, k) for k in self.shard.layout.placement.on_stage(self.index))

    @property
    def has_embedding(self) -> bool:
        return any(part.has_embedding for part in self.parts)

    @property
    def has_head(self) -> bool:
        return any(part.has_head for part in self.parts)

    @property
    def parameters(self) -> Weights:
        """Trainable parameters on one rank of this stage."""
        return total(part.parameters for part in self.parts)


def folded(works: Iterable[Work]) -> tuple[Work, ...]:
    """Adds up the counts of equal (op, cause) pairs, in order of first appearance."""
    counts: dict[tuple[object, str], float] = {}
    ops: dict[tuple[object, str], Work] = {}
    for work in works:
        key = (work.op, work.cause)
        counts[key] = counts.get(key, 0.0) + work.count
        ops.setdefault(key, work)
    return tuple(Work(ops[k].op, k[1], count) for k, count in counts.items())

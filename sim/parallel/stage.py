"""One pipeline stage cut into pieces: as coarse as its dependencies permit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.parallel.sharding import Shard
from sim.program import Work


@dataclass(frozen=True)
class Piece:
    """A run of consecutive work inside a stage. ``name`` is a layer id, ``embedding`` or ``head``."""

    name: str
    layers: tuple[int, int]
    forward: tuple[Work, ...]
    backward: tuple[Work, ...]
    parameters: float  # trainable, on this rank
    gathered: float  # parameters a full-shard scheme must gather for it


@dataclass(frozen=True)
class Stage:
    """Layers [first, last) of the model on pipeline rank ``index``."""

    shard: Shard
    index: int

    @property
    def first(self) -> int:
        return sum(self.shard.layout.stage_layers[: self.index])

    @property
    def last(self) -> int:
        return self.first + self.shard.layout.stage_layers[self.index]

    @property
    def has_embedding(self) -> bool:
        return self.index == 0

    @property
    def has_head(self) -> bool:
        return self.index == self.shard.layout.pp - 1

    @property
    def recomputed(self) -> int:
        return self.shard.layout.recompute.layers[self.index]

    @property
    def parameters(self) -> float:
        """Trainable parameters on one rank of this stage."""
        return sum(p.parameters for p in self.pieces)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Embedding, layers, head: the finest cut."""
        shard = self.shard
        pieces: list[Piece] = []
        outer = shard.workload.architecture
        if self.has_embedding:
            table = outer.embedding_parameters / shard.layout.tp
            pieces.append(
                Piece(
                    "embedding",
                    (self.first, self.first),
                    shard.embedding_forward,
                    shard.embedding_backward,
                    shard.embedding_parameters,
                    table,
                )
            )
        for layer in range(self.first, self.last):
            again = shard.recompute if layer - self.first < self.recomputed else ()
            pieces.append(
                Piece(
                    f"layer {layer}",
                    (layer, layer + 1),
                    shard.forward,
                    (*again, *shard.backward),
                    shard.layer_parameters,
                    outer.layer_parameters / shard.layout.tp,
                )
            )
        if self.has_head:
            head = outer.head_parameters / shard.layout.tp + outer.norm_parameters
            pieces.append(
                Piece(
                    "head",
                    (self.last, self.last),
                    shard.head_forward,
                    shard.head_backward,
                    shard.head_parameters,
                    head,
                )
            )
        return tuple(pieces)

    @cached_property
    def whole(self) -> Piece:
        """The stage as one piece: identical works of its layers are counted, not repeated."""
        return Piece(
            f"layers {self.first}-{self.last - 1}",
            (self.first, self.last),
            folded([w for p in self.pieces for w in p.forward]),
            folded([w for p in reversed(self.pieces) for w in p.backward]),
            self.parameters,
            sum(p.gathered for p in self.pieces),
        )


def folded(works: list[Work]) -> tuple[Work, ...]:
    """Adds up the counts of equal (op, cause) pairs, in order of first appearance."""
    counts: dict[tuple[object, str], float] = {}
    ops: dict[tuple[object, str], Work] = {}
    for work in works:
        key = (work.op, work.cause)
        counts[key] = counts.get(key, 0.0) + work.count
        ops.setdefault(key, work)
    return tuple(Work(ops[k].op, k[1], count) for k, count in counts.items())

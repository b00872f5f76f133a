"""Buckets: which layers' gradients travel together, and in how many collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from sim.parallel.layer_work import Weights, total
from sim.parallel.stage import Part, Piece

MEGATRON_PARAMETERS = 40_000_000
MEGATRON_PARAMETERS_PER_REPLICA = 1_000_000
"""Megatron-LM's default: the larger of the first and the second times the data-parallel degree
(megatron/core/distributed/distributed_data_parallel.py)."""


@dataclass(frozen=True)
class Bucket:
    """Consecutive pieces of a part in backward order, complete once the last of them is.

    ``collectives``: in how many its shared parameters and its experts travel, each.
    """

    name: str
    pieces: tuple[str, ...]
    parameters: Weights
    collectives: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Buckets:
    """``parameters`` None: one bucket per layer. Otherwise one is closed when it has that many or more.

    A layer that has several times as many fills several. ``first_part_only``: the other parts of the
    model are one bucket each, as Megatron-LM leaves all but the first chunk of the first stage.
    """

    parameters: float | None = None
    first_part_only: bool = False

    @staticmethod
    def megatron(replicas: int) -> Buckets:
        size = max(MEGATRON_PARAMETERS, MEGATRON_PARAMETERS_PER_REPLICA * replicas)
        return Buckets(float(size), first_part_only=True)

    def of(self, part: Part) -> tuple[Bucket, ...]:
        """The buckets of a part in the order in which its backward completes them."""
        pieces = [piece for piece in reversed(part.pieces) if piece.parameters]
        if self.parameters is None:
            return tuple(Bucket(p.name, (p.name,), p.parameters) for p in pieces)
        size = inf if self.first_part_only and not part.has_embedding else self.parameters
        found: list[Bucket] = []
        filling: list[Piece] = []
        for piece in pieces:
            filling.append(piece)
            if _count(filling) >= size or piece is pieces[-1]:
                found.append(_closed(filling, size))
                filling = []
        return tuple(found)


def _count(pieces: Sequence[Piece]) -> float:
    held = total(piece.parameters for piece in pieces)
    return held.shared + held.experts


def _closed(pieces: Sequence[Piece], size: float) -> Bucket:
    held = total(piece.parameters for piece in pieces)
    name = pieces[0].name if len(pieces) == 1 else f"{pieces[0].name} to {pieces[-1].name}"
    collectives = (max(1, int(held.shared // size)), max(1, int(held.experts // size)))
    return Bucket(name, tuple(piece.name for piece in pieces), held, collectives)

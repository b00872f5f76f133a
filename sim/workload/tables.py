"""Embedding tables: rows that samples look up, by far the largest part of a recommender."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """``rows`` vectors of width ``dim``; a sample looks up ``lookups`` of them.

    Pooled: the rows of a sample are summed to one vector. ``sequence``: ``lookups`` count per position of the
    sample's sequence, and every position keeps its own vector.
    """

    name: str
    rows: int
    dim: int
    lookups: float = 1.0
    sequence: bool = False

    @property
    def parameters(self) -> int:
        return self.rows * self.dim

    def rows_per_sample(self, positions: float) -> float:
        """Rows that a sample of ``positions`` positions reads."""
        return self.lookups * (positions if self.sequence else 1.0)

    def vectors_per_sample(self, positions: float) -> float:
        """Vectors that leave the table for a sample: one when pooled."""
        return self.lookups * positions if self.sequence else 1.0

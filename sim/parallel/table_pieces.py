"""Where the rows of embedding tables lie: pieces of tables in buckets (ranks, or nodes whose GPUs share them)."""

from __future__ import annotations

from dataclasses import dataclass

from sim.workload.skew import hottest_share
from sim.workload.tables import Table

ROWS, COLUMNS = "rows", "columns"  # what a table is cut by


@dataclass(frozen=True)
class Piece:
    """One of ``pieces`` equal parts of ``table``; ``index`` 0 of a table cut by rows holds its hottest row.

    Rates are per sample. A piece of rows gets its part of the lookups but still gives a whole partial sum of a
    pooled table; a piece of columns gets them all and gives part of each vector.
    """

    table: Table
    lookups_of_table: float
    vectors_of_table: float
    pieces: int = 1
    cut: str = ROWS
    index: int = 0
    skew: float = 0.0

    @property
    def lookups(self) -> float:
        """Rows that a sample reads from this piece."""
        if self.cut == COLUMNS:
            return self.lookups_of_table
        return self.lookups_of_table / self.pieces

    @property
    def asked(self) -> float:
        """The same with the popular row where it is: what the piece's owner really gets."""
        if self.cut == COLUMNS or self.pieces == 1 or not self.skew:
            return self.lookups
        hot = hottest_share(self.table.rows, self.skew)
        even = (1.0 - hot) / self.pieces
        return self.lookups_of_table * (even + (hot if self.index == 0 else 0.0))

    @property
    def vectors(self) -> float:
        """Vectors (``width`` wide) that a sample gets from it."""
        if self.table.sequence and self.cut == ROWS:
            return self.vectors_of_table * self.asked / self.lookups_of_table
        return self.vectors_of_table

    @property
    def width(self) -> float:
        return self.table.dim / (self.pieces if self.cut == COLUMNS else 1)

    @property
    def rows(self) -> float:
        return self.table.rows / (self.pieces if self.cut == ROWS else 1)

    @property
    def parameters(self) -> float:
        return self.table.parameters / self.pieces


Bucket = tuple[Piece, ...]


@dataclass(frozen=True)
class TablePlan:
    """``buckets`` of pieces, and the tables that every rank holds whole."""

    buckets: tuple[Bucket, ...]
    replicated: tuple[Table, ...] = ()


def lookup_width(bucket: Bucket) -> float:
    """Elements of rows that a sample reads from ``bucket``."""
    return sum(piece.asked * piece.width for piece in bucket)


def vector_width(bucket: Bucket) -> float:
    """Elements of vectors that a sample gets from ``bucket``."""
    return sum(piece.vectors * piece.width for piece in bucket)


def parameters(bucket: Bucket) -> float:
    return sum(piece.parameters for piece in bucket)

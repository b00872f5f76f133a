"""A recommender as its published configuration describes it: embedding tables and the dense layers over them.

Two kinds of dense layers: a bottom MLP, an interaction of all vectors and a top MLP (DLRM, arXiv:1906.00091; its
DCNv2 variant, arXiv:2008.13535), or a sequence encoder over one vector per position (HSTU, arXiv:2402.17152).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sim.workload.tables import Table

INTERACTIONS = ("cross", "dot")


@dataclass(frozen=True)
class SequenceEncoder:
    """HSTU layers over ``hidden`` wide positions: attention of ``heads`` without softmax, gated by a projection.

    One projection gives gates, values (``value_dim`` per head each), queries and keys (``key_dim``); ``gathered`` is
    the width of what the output projection reads. ``features`` vectors of a position are joined and brought to
    ``hidden`` by an MLP with the inner widths ``content``.
    """

    layers: int
    hidden: int
    heads: int
    key_dim: int
    value_dim: int
    gathered: int
    content: tuple[int, ...] = ()

    @property
    def projected(self) -> int:
        """Outputs of the first projection: gates, values, queries and keys of all heads."""
        return 2 * self.heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True)
class Recommender:
    """Tables and dense layers of one model. All derived figures are exact, none is tabulated.

    ``bottom`` and ``top`` are the widths after each layer; ``dense_inputs`` numeric features enter the bottom. The
    interaction is ``cross`` (``cross_layers`` low-rank ones of ``cross_rank``) or ``dot`` (all pairs of vectors).
    """

    name: str
    title: str
    tables: tuple[Table, ...]
    source: str
    dense_inputs: int = 0
    bottom: tuple[int, ...] = ()
    interaction: str = "dot"
    cross_layers: int = 0
    cross_rank: int = 0
    top: tuple[int, ...] = ()
    encoder: SequenceEncoder | None = None
    published_parameters: float | None = None  # of tables and dense layers together

    @property
    def table_parameters(self) -> int:
        return sum(table.parameters for table in self.tables)

    @property
    def vectors(self) -> int:
        """Vectors that meet in the interaction: one per table and the bottom MLP's."""
        return len(self.tables) + (1 if self.bottom else 0)

    @property
    def joined_width(self) -> int:
        """All vectors of a sample side by side."""
        return sum(table.dim for table in self.tables) + (self.bottom[-1] if self.bottom else 0)

    @property
    def interaction_width(self) -> int:
        """What the top MLP reads: crossed vectors, or the bottom's output and the products of all pairs."""
        if self.interaction == "cross":
            return self.joined_width
        pairs = self.vectors * (self.vectors - 1) // 2
        return pairs + (self.bottom[-1] if self.bottom else 0)

    @property
    def bottom_layers(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of each linear layer of the bottom MLP."""
        return tuple(_chain((self.dense_inputs, *self.bottom))) if self.bottom else ()

    @property
    def cross_matrices(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of the cross layers: down to the rank and back, each."""
        width, rank = self.joined_width, self.cross_rank
        return ((width, rank), (rank, width)) * (self.cross_layers if self.interaction == "cross" else 0)

    @property
    def top_layers(self) -> tuple[tuple[int, int], ...]:
        return tuple(_chain((self.interaction_width, *self.top))) if self.top else ()

    @property
    def encoder_layer(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of the two projections of one encoder layer; none without an encoder."""
        e = self.encoder
        return () if e is None else ((e.hidden, e.projected), (e.gathered, e.hidden))

    @property
    def content_layers(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of the MLP that brings a position's joined vectors to the encoder's width."""
        e = self.encoder
        if e is None:
            return ()
        joined = sum(table.dim for table in self.tables if table.sequence)
        return tuple(_chain((joined, *e.content, e.hidden))) if e.content else ()

    @property
    def dense_parameters(self) -> int:
        """Weights and biases outside the tables, and two norms of an encoder layer."""
        linears = (*self.bottom_layers, *self.cross_matrices, *self.top_layers, *self.content_layers)
        count = sum(inputs * outputs + outputs for inputs, outputs in linears)
        if self.encoder is None:
            return count
        layer = sum(i * o + o for i, o in self.encoder_layer) + 2 * (
            self.encoder.hidden + self.encoder.gathered
        )
        return count + self.encoder.layers * layer

    @property
    def parameters(self) -> int:
        return self.table_parameters + self.dense_parameters


def _chain(widths: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return pairwise(widths)

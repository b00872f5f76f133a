"""What one training step of a recommender must compute: shapes and traffic per sample, before any sharding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sim.workload.recommender import Recommender, SequenceEncoder
from sim.workload.tables import Table

CROSS_PASSES = 4
"""Passes over a sample's joined vectors in one fused cross layer, both directions together.

Bias, product with the first vector and residual ride on the matrix products; unfused they are 13 passes, which
published DLRM-DCNv2 runs contradict.
"""

ENCODER_PASSES = 46
"""Elements per hidden unit that norms, gates, splits and residuals of one HSTU layer move, both directions together.

Measured on one published profile: 39.5 ms of element-wise kernels in 8 layers 1024 wide (recsys-examples).
"""

BACKWARD_SHARE = (
    0.6  # of element-wise traffic: gradients are read beside what the forward pass saved (assumed)
)

MLP_PASSES = 2
"""Passes over the output of a linear layer: its activation is fused into the product, the mask of its gradient is not."""


@dataclass(frozen=True)
class Lengths:
    """How long sequences are: ``mean`` positions, standard deviation ``variation`` times that.

    ``balanced``: samples are dealt so that all ranks have the same work, else each takes what comes.
    """

    mean: float
    variation: float = 0.0
    balanced: bool = True

    @property
    def pairs_factor(self) -> float:
        """Mean of squared lengths over the square of the mean."""
        return 1.0 + self.variation**2

    def hottest(self, samples: float, ranks: int) -> float:
        """Positions of the most loaded rank over the mean: the largest of ``ranks`` sums of ``samples`` lengths."""
        return 1.0 if self.balanced else 1.0 + self.variation * _extreme(samples, ranks)

    def hottest_pairs(self, samples: float, ranks: int) -> float:
        """The same for the sums of squares, as if lengths were log-normal."""
        spread = math.sqrt((1.0 + self.variation**2) ** 4 - 1.0)
        return 1.0 if self.balanced else 1.0 + spread * _extreme(samples, ranks)


def _extreme(samples: float, ranks: int) -> float:
    """How many standard deviations of a sample the mean of the largest of ``ranks`` batches lies above the mean.

    √(2 ln N), the growth of the largest of N normal values, over √M for the mean of M.
    """
    return math.sqrt(2.0 * math.log(ranks)) / math.sqrt(samples) if ranks > 1 else 0.0


@dataclass(frozen=True)
class RecommenderWorkload:
    """A recommender and the numerics it is trained with. Matrix products are (inputs, outputs)."""

    model: Recommender
    precision: str
    lengths: Lengths = Lengths(1.0)

    @property
    def element_bytes(self) -> float:
        """Bytes of one activation element."""
        return 4.0 if self.precision == "fp32" else 2.0

    @property
    def encoder(self) -> SequenceEncoder:
        """Raises ``ValueError`` for a model without one."""
        if self.model.encoder is None:
            raise ValueError(f"{self.model.name} has no sequence encoder")
        return self.model.encoder

    def rows(self, table: Table) -> float:
        """Rows of ``table`` that a sample reads on average."""
        return table.rows_per_sample(self.lengths.mean)

    def vectors(self, table: Table) -> float:
        """Vectors of ``table`` that reach the dense layers per sample."""
        return table.vectors_per_sample(self.lengths.mean)

    @property
    def before(self) -> tuple[tuple[int, int], ...]:
        """Matrix products per sample that need no embeddings."""
        return self.model.bottom_layers

    @property
    def after(self) -> tuple[tuple[int, int], ...]:
        """Matrix products per sample over the embeddings: interaction and top MLP."""
        return (*self.model.cross_matrices, *self.model.top_layers)

    @property
    def per_position(self) -> tuple[tuple[int, int], ...]:
        """Matrix products per position outside the encoder's layers."""
        return self.model.content_layers

    def forward_traffic(self) -> float:
        """Bytes per sample of element-wise kernels over the embeddings, forward."""
        return self._traffic * (1.0 - BACKWARD_SHARE)

    def backward_traffic(self) -> float:
        return self._traffic * BACKWARD_SHARE

    @property
    def _traffic(self) -> float:
        model = self.model
        if model.encoder is not None:
            return 0.0
        elements = MLP_PASSES * sum(outputs for _, outputs in (*self.before, *model.top_layers))
        if model.interaction == "cross":
            elements += CROSS_PASSES * model.cross_layers * model.joined_width
        else:  # read and join all vectors, write the products; gradients of both back
            elements += 5 * model.joined_width + 3 * model.interaction_width
        return elements * self.element_bytes

    @property
    def encoder_traffic(self) -> float:
        """Bytes per position and layer of the encoder's element-wise kernels, both directions together."""
        return ENCODER_PASSES * self.encoder.hidden * self.element_bytes

    @property
    def content_traffic(self) -> float:
        """Bytes per position of joining the vectors and of the content MLP's activations, both directions together."""
        joined = sum(table.dim for table in self.model.tables if table.sequence)
        inner = sum(outputs for _, outputs in self.per_position)
        return (4.0 * joined + 2.0 * MLP_PASSES * inner) * self.element_bytes if joined else 0.0

    def flops_per_sample(self) -> float:
        """Forward and backward FLOPs of all matrix products and of attention, what the mask leaves, per sample."""
        per_sample = sum(i * o for i, o in (*self.before, *self.after))
        flops = 6.0 * per_sample
        if self.model.encoder is None:
            return flops
        e, s = self.model.encoder, self.lengths.mean
        layers = e.layers * sum(i * o for i, o in self.model.encoder_layer) + sum(
            i * o for i, o in self.per_position
        )
        pairs = s * s * self.lengths.pairs_factor
        attention = 3.5 * e.layers * e.heads * (e.key_dim + e.value_dim) * pairs
        return flops + 6.0 * s * layers + attention

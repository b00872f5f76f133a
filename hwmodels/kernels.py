"""Seconds for one kernel on one GPU under one software stack.

Closed forms of a mechanistic kind: work over rate, times how well the shape fills the machine. The
stack's efficiency figures multiply them; nothing here is fitted to a single run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from hwmodels.gpu import Gpu
from hwmodels.power import achievable_flops, compute_scale
from hwmodels.stack import StackProfile

# Candidate output tiles and the rate their inner loop reaches relative to the best one, and what
# splitting K over s workgroups costs. Assumed, not measured (docs/models.md section 1).
MACRO_TILES = (
    (256, 256, 1.0),
    (256, 192, 0.97),
    (192, 256, 0.97),
    (256, 128, 0.92),
    (128, 256, 0.92),
    (128, 128, 0.80),
)
SPLIT_K = ((1, 1.0), (2, 0.95), (4, 0.90), (8, 0.90))

# Filling the inner loop's pipeline and writing the tile cost as much as this many steps of K
# (assumed; the form that grouped expert GEMMs of published runs ask for, docs/models.md).
K_OVERHEAD = 256

BYTES = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "mxfp8": 1.03125,
    "mxfp4": 0.53125,
    "nvfp4": 0.5625,
}
"""Bytes per element, block scales included (one per 32 elements; per 16 for nvfp4)."""

OUTPUT_BYTES = 2.0  # GEMM results leave in 16 bits whatever the operands


@lru_cache(maxsize=65536)
def tile_utilisation(m: int, n: int, k: int, compute_units: int) -> float:
    """Share of the best rate that an m x n x k GEMM reaches after tile and wave quantisation.

    T output tiles run in ceil(T / compute_units) waves; a tile that hangs over the edge computes
    zeros; a short inner loop does not pay for its prologue and epilogue. The best of MACRO_TILES x SPLIT_K is taken, as a tuned library would.
    """
    best = 0.0
    for rows, columns, rate in MACRO_TILES:
        tiles_m, tiles_n = math.ceil(m / rows), math.ceil(n / columns)
        fill = (m * n) / (tiles_m * rows * tiles_n * columns)
        for split, cost in SPLIT_K:
            loop = k / (k + K_OVERHEAD * split)
            tiles = tiles_m * tiles_n * split
            waves = math.ceil(tiles / compute_units)
            best = max(best, rate * cost * loop * fill * tiles / (compute_units * waves))
    return best


@dataclass(frozen=True)
class KernelModel:
    """Kernel times on ``gpu`` under ``stack``, optionally below the GPU's own power cap."""

    gpu: Gpu
    stack: StackProfile
    power_cap_W: float | None = None

    @cached_property
    def stream_Bps(self) -> float:
        """HBM bandwidth that streaming kernels reach, bytes/s."""
        return self.gpu.hbm_bandwidth_Bps * self.stack.stream_efficiency

    def gemm_s(self, m: int, n: int, k: int, dtype: str) -> float:
        """max(FLOPs / (achievable rate x utilisation x stack efficiency), bytes / HBM)."""
        rate = achievable_flops(self.gpu, dtype, self.power_cap_W) * self.stack.gemm_efficiency[dtype]
        compute = 2.0 * m * n * k / (rate * tile_utilisation(m, n, k, self.gpu.compute_units))
        traffic = BYTES[dtype] * (m * k + k * n) + OUTPUT_BYTES * m * n
        return max(compute, traffic / self.stream_Bps)

    def attention_s(
        self,
        flops: float,
        score_elements: float,
        sequence_length: int,
        *,
        backward: bool,
        fused: bool,
        dtype: str = "bf16",
    ) -> float:
        """Fused: FLOPs over the measured rate at this length. Unfused: two GEMMs plus passes over the scores.

        ``score_elements`` is batch x heads x s². An unfused kernel writes and reads the score matrix
        in ``dtype`` ``attention_unfused_passes`` times forward and 8/5 of that backward
        (docs/models.md).
        """
        if fused:
            return flops / self.attention_rate_flops(sequence_length, backward=backward)
        passes = self.stack.attention_unfused_passes * (1.6 if backward else 1.0)
        gemm_rate = achievable_flops(self.gpu, dtype, self.power_cap_W) * self.stack.gemm_efficiency[dtype]
        return flops / gemm_rate + passes * score_elements * BYTES[dtype] / self.stream_Bps

    def attention_rate_flops(self, sequence_length: int, *, backward: bool) -> float:
        """Measured rate, interpolated in log(sequence length) and held flat outside the table, FLOP/s."""
        direction = "backward" if backward else "forward"
        points = sorted(
            (r.sequence_length, r.flops) for r in self.stack.attention_rates if r.direction == direction
        )
        if not points:
            raise ValueError(
                f"stack {self.stack.name} has no fused attention {direction} rate; use attention: unfused"
            )
        rate = _log_interpolate(points, sequence_length)
        return rate * self.gpu.compute_scale * compute_scale(self.gpu, self.power_cap_W)

    def stream_s(self, bytes_moved: float, *, fusible: bool) -> float:
        """Bytes over achieved HBM bandwidth; ``fusible`` traffic grows on stacks that do not fuse it."""
        return bytes_moved * (self.stack.streaming_factor if fusible else 1.0) / self.stream_Bps

    def cross_entropy_s(self, logits: float, kernel: str) -> float:
        """``kernel``: default (the stack's own), fused or unfused."""
        return logits * self.stack.cross_entropy_bytes_per_logit[kernel] / self.stream_Bps

    def optimizer_s(self, parameters: float) -> float:
        return parameters * self.stack.optimizer_bytes_per_parameter / self.stream_Bps

    def accumulate_s(self, parameters: float) -> float:
        return parameters * self.stack.gradient_accumulation_bytes_per_parameter / self.stream_Bps

    def launch_s(self, kernels: float) -> float:
        return kernels * self.stack.kernel_gap_s


def _log_interpolate(points: list[tuple[int, float]], x: int) -> float:
    if x <= points[0][0]:
        return points[0][1]
    if x >= points[-1][0]:
        return points[-1][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            weight = math.log(x / x0) / math.log(x1 / x0)
            return y0 + weight * (y1 - y0)
    raise AssertionError("unreachable: points are sorted")

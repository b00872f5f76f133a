"""Seconds for one kernel on one GPU under one software stack.

Closed forms of a mechanistic kind: work over rate, times how well the shape fills the machine. The
stack's efficiency figures multiply them; nothing here is fitted to a single run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from hwmodels.gpu import Gpu
from hwmodels.power import achievable_flops, flop_per_clock
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
    (64, 256, 0.70),
    (256, 64, 0.70),
    (32, 256, 0.50),
    (256, 32, 0.50),
    (16, 256, 0.30),
    (256, 16, 0.30),
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

# Sequence lengths that halve the rate of a fused attention kernel: of any mask, and further of a causal
# one, whose tiles on the diagonal are half empty. Fitted, see ``KernelModel.attention_rate_flops``.
ATTENTION_RAMP: Mapping[str, tuple[float, float]] = {"forward": (317.0, 453.0), "backward": (427.0, 738.0)}

# Keys beyond a window that a kernel computes for each query: half a tile of 128 on either edge of the band (assumed).
BAND_TILE = 128

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


@lru_cache(maxsize=65536)
def grouped_utilisation(rows: tuple[int, ...], n: int, k: int, compute_units: int) -> float:
    """The same for one launch over groups of ``rows`` (experts): their tiles share the waves.

    A group's last tile hangs over its own edge, but no group waits for another one's last wave.
    """
    work = sum(rows) * n
    best = 0.0
    for height, width, rate in MACRO_TILES:
        tiles = sum(math.ceil(m / height) for m in rows) * math.ceil(n / width)
        if not tiles:
            continue
        waves = math.ceil(tiles / compute_units)
        fill = work / (tiles * height * width)
        best = max(best, rate * k / (k + K_OVERHEAD) * fill * tiles / (compute_units * waves))
    return best


@dataclass(frozen=True)
class KernelModel:
    """Kernel times on ``gpu`` under ``stack``, optionally below the GPU's own power cap."""

    gpu: Gpu
    stack: StackProfile
    power_cap_W: float | None = None
    attention_ramp: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: ATTENTION_RAMP, repr=False
    )

    @cached_property
    def stream_Bps(self) -> float:
        """HBM bandwidth that streaming kernels reach, bytes/s."""
        return self.gpu.hbm_bandwidth_Bps * self.stack.stream_efficiency

    def _gemm_flops(self, dtype: str) -> float:
        """FLOP/s of a GEMM whose tiles fill the machine."""
        return achievable_flops(self.gpu, dtype, self.power_cap_W) * self.stack.gemm_efficiency[dtype]

    def gemm_s(self, m: int, n: int, k: int, dtype: str) -> float:
        """max(FLOPs / (achievable rate x utilisation x stack efficiency), bytes / HBM)."""
        rate = self._gemm_flops(dtype)
        compute = 2.0 * m * n * k / (rate * tile_utilisation(m, n, k, self.gpu.compute_units))
        traffic = BYTES[dtype] * (m * k + k * n) + OUTPUT_BYTES * m * n
        return max(compute, traffic / self.stream_Bps)

    def grouped_gemm_s(self, rows: tuple[int, ...], n: int, k: int, dtype: str, *, pooled: bool) -> float:
        """One GEMM of n x k weights per group, group i with ``rows[i]`` rows.

        ``pooled``: one kernel whose tiles share the compute units. Otherwise one launch after the other,
        each with its own last wave and a gap, as a loop over experts does.
        """
        busy = tuple(m for m in rows if m > 0)
        if not pooled:
            share = self.stack.grouped_gemm_efficiency
            return sum(self.gemm_s(m, n, k, dtype) / share + self.stack.kernel_gap_s for m in busy)
        if not busy:
            return 0.0
        rate = self._gemm_flops(dtype) * self.stack.grouped_gemm_efficiency
        share = grouped_utilisation(busy, n, k, self.gpu.compute_units)
        compute = 2.0 * sum(busy) * n * k / (rate * share)
        traffic = BYTES[dtype] * (sum(busy) * k + len(busy) * k * n) + OUTPUT_BYTES * sum(busy) * n
        return max(compute, traffic / self.stream_Bps)

    def attention_s(
        self,
        flops: float,
        score_elements: float,
        sequence_length: int,
        *,
        backward: bool,
        fused: bool,
        causal: bool = True,
        head_dim: int = 128,
        dtype: str = "bf16",
        value_dim: int | None = None,
        window: int = 0,
        blocks: int = 0,
    ) -> float:
        """Fused: FLOPs over the measured rate at this length. Unfused: two GEMMs plus passes over the scores.

        ``score_elements`` is batch x heads x s². An unfused kernel writes and reads the score matrix
        in ``dtype`` ``attention_unfused_passes`` times forward and 8/5 of that backward
        (docs/models.md). Values of another width than keys (``value_dim``) leave a fused kernel the
        stack's ``uneven_width_share`` of its rate; a ``window`` makes it compute the tiles that the band
        touches. ``blocks``: batch x heads, 0 where they are many.
        """
        if fused:
            banded = bool(window) and window < sequence_length
            rate = self.attention_rate_flops(
                sequence_length, head_dim, backward=backward, causal=causal and not banded, blocks=blocks
            )
            if value_dim is not None and value_dim != head_dim:
                rate *= self.stack.uneven_width_share
            return flops * (1.0 + BAND_TILE / window if banded else 1.0) / rate
        passes = self.stack.attention_unfused_passes * (1.6 if backward else 1.0)
        return flops / self._gemm_flops(dtype) + passes * score_elements * BYTES[dtype] / self.stream_Bps

    def attention_rate_flops(
        self,
        sequence_length: int,
        head_dim: int = 128,
        *,
        backward: bool,
        causal: bool = True,
        blocks: int = 0,
    ) -> float:
        """Rate of the fused kernel, FLOP/s, counting causal attention at half.

        ``best GEMM rate x share / (1 + s0/s) / (1 + c/s when causal)``, times a width factor: per score
        a kernel does d multiply-adds and one exponential, whose unit keeps up with d0 of them; d0 is
        FLOP per clock and compute unit over 64 (32 on CDNA3, 64 on CDNA4 and Hopper). Fitted on
        AITER and HipKittens rows of MI300X and MI355X at widths 64 and 128; leaving either GPU out
        the other is met within 8 % (docs/micro.md). Raises ValueError when the stack has no kernel.
        """
        direction = "backward" if backward else "forward"
        share = self.stack.attention_share.get(direction)
        if share is None:
            raise ValueError(
                f"stack {self.stack.name} has no fused attention {direction} figure; use attention: unfused"
            )
        short, masked = self.attention_ramp[direction]
        gpu = self.gpu
        if blocks and not backward:
            masked = max(masked, 2.0 * self.stack.attention_tile_rows * gpu.compute_units / blocks)
        exponential = flop_per_clock(gpu, _attention_format(gpu)) / gpu.compute_units / 64.0
        width = (1.0 + exponential / 128.0) / (1.0 + exponential / head_dim)
        length = 1.0 + short / sequence_length
        mask = 1.0 + masked / sequence_length if causal else 1.0
        best = achievable_flops(gpu, _attention_format(gpu), self.power_cap_W)
        return best * share * width / (length * mask)

    def stream_s(self, bytes_moved: float, *, fusible: bool, by_head: bool = False) -> float:
        """Bytes over achieved HBM bandwidth; ``fusible`` traffic grows on stacks that do not fuse it.

        Kernels that work ``by_head`` (rotary embedding, norms of queries and keys) read rows of one
        head's width and reach ``head_kernel_share`` of it.
        """
        bandwidth = self.stream_Bps * (self.stack.head_kernel_share if by_head else 1.0)
        return bytes_moved * (self.stack.streaming_factor if fusible else 1.0) / bandwidth

    def cross_entropy_s(self, logits: float, kernel: str) -> float:
        """``kernel``: default (the stack's own), fused or unfused."""
        return logits * self.stack.cross_entropy_bytes_per_logit[kernel] / self.stream_Bps

    def optimizer_s(self, parameters: float) -> float:
        return parameters * self.stack.optimizer_bytes_per_parameter / self.stream_Bps

    def accumulate_s(self, parameters: float) -> float:
        return parameters * self.stack.gradient_accumulation_bytes_per_parameter / self.stream_Bps

    def launch_s(self, kernels: float) -> float:
        return kernels * self.stack.kernel_gap_s


def _attention_format(gpu: Gpu) -> str:
    """Attention runs in 16 bits whatever the linear layers do."""
    return "bf16" if "bf16" in gpu.achievable_flops else "fp16"

"""A dated software-efficiency profile: what one software stack gets out of one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwmodels.figure import Figure


@dataclass(frozen=True)
class StackProfile:
    """Efficiency figures of one (GPU, software) pair at one date.

    Efficiencies multiply a *mechanistic* time and are fitted only on runs marked ``fit``;
    memory constants are facts about the software. ``inherits`` names the profile that figures
    come from when this stack has too few runs of its own.
    """

    name: str
    title: str
    date: str
    gpus: tuple[str, ...]
    inherits: str | None
    tuned: bool
    gemm_efficiency: Mapping[str, float]  # by number format
    stream_efficiency: float  # of HBM peak
    overlap_slowdown: float  # kappa: GEMM beside a collective runs this much slower
    attention_share: Mapping[str, float]  # of the GPU's best rate, fused kernel: forward, backward
    attention_unfused_passes: float  # passes over the score matrix, forward
    kernel_gap_s: float
    streaming_factor: float  # unfused stacks move more bytes than the fused closed form
    cross_entropy_bytes_per_logit: Mapping[
        str, float
    ]  # kernel: default (what the stack runs), fused, unfused
    optimizer_bytes_per_parameter: float
    gradient_accumulation_bytes_per_parameter: float
    scale_up_efficiency: float  # of the node's usable collective bandwidth
    scale_out_efficiency: float  # of the NICs' usable bandwidth, collectives
    p2p_efficiency: float  # of the NIC's usable bandwidth, pipeline sends
    blocking_p2p: bool
    recompute_early_stop: bool  # recomputation skips the last linear layer of a block
    fixed_step_s: float  # host and replica skew, per step
    memory: Mapping[str, float]  # allocator facts, see sim/parallel/memory.py
    grouped_gemm_efficiency: float  # of a GEMM's, where experts share a kernel or take turns
    # Rate of fused attention whose values are narrower than its keys, of one of equal widths. Assumed: between
    # values padded to 192 and both padded to 256.
    uneven_width_share: float = 0.75
    attention_tile_rows: float = 0.0  # queries that a compute unit takes at a time, forward; 0: not known
    host_launch_s: float = 0.0  # host time per dependent kernel: a floor of compute; 0: the host keeps ahead
    dispatch_full_rate_units: float = 64.0  # compute units at which a token dispatch kernel fills its links
    head_kernel_share: float = 1.0  # of streaming bandwidth, kernels that work head by head reach
    embedding: Mapping[str, float] = field(
        default_factory=dict
    )  # recommenders: hwmodels/embeddings.py; empty where the software trains none
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)

    def dispatch_share(self, units: int) -> float:
        """Part of its bandwidth that a token dispatch reaches on ``units`` compute units (0: enough of them)."""
        return min(1.0, units / self.dispatch_full_rate_units) if units else 1.0

"""How tokens reach their experts: choices of the training run, not of the model."""

from __future__ import annotations

from dataclasses import dataclass

from sim.workload.experts import Experts


@dataclass(frozen=True)
class Routing:
    """``balance_factor``: rows of the hottest rank over the mean of all ranks; 1 is perfect balance.

    ``grouped_gemm``: ``pooled`` (one kernel over all experts of a rank), ``loop`` (one after the other) or
    ``legacy`` (so too, with unfused weighting).
    ``dispatch``: ``plain`` (an all-to-all of one copy per expert), ``deduplicated`` (one copy per rank, one
    per node over the network) or ``fused`` (deduplicated and inside the experts' matrix products, which
    hide it). ``capacity_factor``: every expert gets exactly that many times its fair share of rows, padded
    or dropped; None routes without dropping. ``group_limited``: the model's own limit on groups holds;
    routing that is forced to be balanced ignores it. ``one_hot``: tokens are moved by products with one-hot
    masks, as static-shape compilers do, not by gathering. ``static_buffer``: kernels sweep a buffer that
    could take all tokens of the group, as such compilers do without a capacity. ``dispatch_units``: compute
    units that a deduplicating dispatch runs on; None: as many as it needs.
    """

    balance_factor: float = 1.0
    grouped_gemm: str = "pooled"
    dispatch: str = "plain"
    capacity_factor: float | None = None
    group_limited: bool = True
    one_hot: bool = False
    static_buffer: bool = False
    dispatch_units: int | None = None

    def rows_per_token(self, experts: Experts) -> float:
        """Rows that the experts of the hottest rank compute, per token of one rank."""
        if self.capacity_factor is not None:
            return experts.top_k * self.capacity_factor
        return experts.top_k * self.balance_factor

    def copies(self, experts: Experts, places: int) -> float:
        """Distinct ones among ``places`` equal homes of the experts that a token goes to, on average.

        ``top_k`` independent choices meet places·(1 − (1 − 1/places)^top_k) of them; group-limited
        routing chooses among the homes of ``group_limit`` of ``groups`` groups only.
        """
        reach = float(places)
        if self.group_limited and experts.groups > 1:
            reach = max(1.0, min(reach, places * experts.group_limit / experts.groups))
        return reach * (1.0 - (1.0 - 1.0 / reach) ** experts.top_k)


BALANCED = Routing()
"""Dropless, balanced, one all-to-all: what is meant where nothing is said."""

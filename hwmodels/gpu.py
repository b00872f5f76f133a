"""One accelerator as software sees it: a GCD of an MI250X is a GPU, its package is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwmodels.figure import Figure


@dataclass(frozen=True)
class Gpu:
    """What one GPU can do. Plain SI floats; ``figures`` keeps the provenance of each.

    ``achievable_flops`` is the best sustained dense GEMM rate measured at ``power_cap_W`` with
    realistic data (AMD's "max achievable FLOPs"), not the data-sheet peak.
    """

    name: str
    title: str
    vendor: str
    architecture: str
    unit: str  # "package", "GCD", "APU": what is being counted
    status: str  # "shipping" or "announced"
    compute_units: int
    dies: int  # XCDs; each has its own L2
    peak_clock_Hz: float
    peak_flops: Mapping[str, float]  # dense FLOP/s by number format
    achievable_flops: Mapping[str, float]  # FLOP/s at power_cap_W
    sustained_clock_Hz: Mapping[str, float]  # measured under GEMM load at power_cap_W, where known
    power_cap_W: float
    hbm_bytes: float
    hbm_bandwidth_Bps: float
    host_link_Bps: float = 0.0  # usable, per direction, to host memory; 0: not known
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)

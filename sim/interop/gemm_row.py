"""One measured GEMM, whichever tool measured it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GemmRow:
    """C[m, n] = A[m, k] x B[k, n], ``batch`` times. Clocks are what the tool sampled, where it did."""

    line: int
    m: int
    n: int
    k: int
    dtype: str  # of A, in catalog names; "" where the log does not say
    time_s: float
    rate_flops: float
    batch: int = 1
    grouped: bool = False
    transposes: str = ""  # "NN", "TN", …
    bandwidth_Bps: float | None = None
    clock_Hz: float | None = None
    memory_clock_Hz: float | None = None
    gpu: str = ""

    @property
    def flop(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.batch

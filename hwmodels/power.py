"""The clock a GPU can hold under its power cap, and what that leaves of its peak.

A GEMM is power-limited on every current accelerator: an MI300X at 750 W holds 1.21 of its 2.1 GHz in
bf16. The rate is FLOP/clock/CU x CUs x clock(cap), times the share of cycles the kernel keeps the
matrix units busy.
"""

from __future__ import annotations

from collections.abc import Mapping

from hwmodels.gpu import Gpu

# Same silicon at 750 W (MI300X) and 1000 W (MI325X): bf16 843/708 and fp8 1519/1273 give exponents
# 0.607 and 0.614; ROCm blog "Measuring Max-Achievable FLOPs, part 2" (2025-02-28).
CAP_EXPONENT = 0.6

# Share of matrix-unit cycles used at the actual clock: 708 of 751 TFLOP/s, same source.
BUSY_SHARE = 0.94


class MissingRate(ValueError):
    """The GPU has no matrix rate for a number format."""


def flop_per_clock(gpu: Gpu, dtype: str) -> float:
    """Dense FLOP per clock of the whole GPU: data-sheet peak over peak clock."""
    return _rate(gpu.peak_flops, gpu, dtype) / gpu.peak_clock_Hz


def busy_share(gpu: Gpu, dtype: str) -> float:
    """Fraction of matrix cycles used by the best GEMM at its actual clock (measured where known).

    At most all of them: a clock read under a slower kernel than the best one would ask for more.
    """
    clock = gpu.sustained_clock_Hz.get(dtype)
    if clock is None:
        return BUSY_SHARE
    return min(1.0, _rate(gpu.achievable_flops, gpu, dtype) / (flop_per_clock(gpu, dtype) * clock))


def sustained_clock_Hz(gpu: Gpu, dtype: str, power_cap_W: float | None = None) -> float:
    """Clock held under a GEMM of ``dtype`` at ``power_cap_W`` (default: the GPU's own cap), in Hz.

    Scales as cap^0.6 below the peak clock.
    """
    reference = _rate(gpu.achievable_flops, gpu, dtype) / (
        flop_per_clock(gpu, dtype) * busy_share(gpu, dtype)
    )
    return min(gpu.peak_clock_Hz, reference * compute_scale(gpu, power_cap_W))


def achievable_flops(gpu: Gpu, dtype: str, power_cap_W: float | None = None) -> float:
    """Best sustained GEMM rate at ``power_cap_W``, FLOP/s. Raises MissingRate for an unknown format."""
    clock = sustained_clock_Hz(gpu, dtype, power_cap_W)
    return flop_per_clock(gpu, dtype) * clock * busy_share(gpu, dtype)


def compute_scale(gpu: Gpu, power_cap_W: float | None) -> float:
    """Speed of power-limited kernels at a cap relative to the GPU's own cap (1 when uncapped)."""
    if power_cap_W is None:
        return 1.0
    return float((power_cap_W / gpu.power_cap_W) ** CAP_EXPONENT)


def _rate(rates: Mapping[str, float], gpu: Gpu, dtype: str) -> float:
    value = rates.get(dtype)
    if value is None:
        known = ", ".join(sorted(gpu.achievable_flops))
        raise MissingRate(f"{gpu.name} has no matrix rate for {dtype!r}; known formats: {known}")
    return value

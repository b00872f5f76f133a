"""SI floats to words: three or four significant digits, a unit people say, never a bare number."""

from __future__ import annotations

import math

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
GIBIBYTE = 2.0**30
_BYTES = ((2.0**40, "TiB"), (GIBIBYTE, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


def significant(value: float, digits: int = 4) -> str:
    """``value`` with ``digits`` significant digits, thousands separated, never in exponent form."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(float(f"{abs(value):.{digits - 1}e}")))  # of the rounded value
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def time_unit(longest_s: float) -> tuple[float, str]:
    """The unit in which ``longest_s`` reads as at least one: (seconds per unit, name)."""
    return next(((scale, unit) for scale, unit in _TIMES if longest_s >= scale), _TIMES[-1])


def duration(seconds: float) -> str:
    """Seconds as ``10.99 s``, ``346.7 ms`` or ``13.0 µs``."""
    scale, unit = time_unit(seconds)
    return f"{significant(seconds / scale)} {unit}"


def size(count: float) -> str:
    """Bytes of memory as ``182.4 GiB``: binary, as allocators and HBM stacks count (a "256 GB" GPU has 256 GiB)."""
    scale, unit = next(((s, u) for s, u in _BYTES if abs(count) >= s), _BYTES[-1])
    return f"{significant(count / scale, 4)} {unit}"


def size_range(low_high: tuple[float, float] | list[float]) -> str:
    """A range of bytes as ``155.1–164.0 GiB``; one figure when both ends read the same."""
    low, high = (f"{bound / GIBIBYTE:,.1f}" for bound in low_high)
    return f"{low} GiB" if low == high else f"{low}–{high} GiB"


def teraflops(flops: float) -> str:
    """FLOP/s as ``1,307 TFLOP/s``."""
    return f"{significant(flops / 1e12)} TFLOP/s"


def tokens(count: float) -> str:
    """A token count as ``131,072`` up to ten million, ``16.8M`` beyond."""
    if count < 1e7:
        return f"{count:,.0f}"
    scale, unit = next((s, u) for s, u in _COUNTS if count >= s)
    return f"{count / scale:.4g}{unit}"


def percent(fraction: float, digits: int = 1) -> str:
    return f"{100 * fraction:.{digits}f} %"


def signed_percent(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"

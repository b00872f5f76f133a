"""Times what memory bandwidth bounds: BabelStream's five kernels, and streaming kernels of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sim.measure.device import Device
from sim.measure.stopwatch import Call, Stopwatch, Timing

WIDTH = 8192  # row of a norm: the hidden size of a 70B model
ARRAY_BYTES = {"cuda": 2**30, "cpu": 2**24}  # each array alone is larger than a last-level cache
SMALLEST_BYTES = 2**22


@dataclass(frozen=True)
class StreamKernel:
    """``bytes`` are those that the kernel must move: every array once. What a run needs beyond them shows as a low rate."""

    name: str
    bytes: float
    call: Call


@dataclass(frozen=True)
class StreamTiming:
    name: str
    bytes: float
    timing: Timing

    @property
    def best_Bps(self) -> float:
        """By the fastest sample, as BabelStream counts."""
        return self.bytes / self.timing.min_s


def array_bytes(device: Device, *, quick: bool) -> int:
    """Size of one array, a power of two; at most a tenth of what is free."""
    size = ARRAY_BYTES[device.kind] // (4 if quick else 1)
    while size > device.free_bytes / 10 and size > SMALLEST_BYTES:
        size //= 2
    return size


def measure_streams(
    kernels: tuple[StreamKernel, ...], stopwatch: Stopwatch, say: Callable[[str], None]
) -> list[StreamTiming]:
    timings = []
    for kernel in kernels:
        found = StreamTiming(kernel.name, kernel.bytes, stopwatch.time(kernel.call))
        say(f"stream {kernel.name}: {found.best_Bps / 1e9:.5g} GB/s")
        timings.append(found)
    return timings


def babelstream_kernels(device: Device, size: int) -> tuple[StreamKernel, ...]:
    """The kernels of BabelStream over arrays of ``size`` bytes in double precision.

    Copy is a torch copy, which the runtime may give to a copy kernel of its own.
    """
    import torch

    a, b, c = (torch.randn(size // 8, dtype=torch.float64, device=device.handle) for _ in range(3))
    return (
        StreamKernel("Copy", 2.0 * size, lambda _: c.copy_(a)),
        StreamKernel("Mul", 2.0 * size, lambda _: torch.mul(c, 0.4, out=b)),
        StreamKernel("Add", 3.0 * size, lambda _: torch.add(a, b, out=c)),
        StreamKernel("Triad", 3.0 * size, lambda _: torch.add(b, c, alpha=0.4, out=a)),
        StreamKernel("Dot", 2.0 * size, lambda _: torch.dot(a, b)),
    )


def training_kernels(device: Device, size: int) -> tuple[StreamKernel, ...]:
    """Casts, RMSNorm, SwiGLU and a residual sum over ``size`` bytes of bf16, as torch runs them without a compiler."""
    import torch
    from torch.nn.functional import rms_norm, silu

    n = size // 2
    x, y = (torch.randn((n // WIDTH, WIDTH), dtype=torch.bfloat16, device=device.handle) for _ in range(2))
    wide, out = x.float(), torch.empty_like(x)
    weight = torch.ones(WIDTH, dtype=torch.bfloat16, device=device.handle)
    eight = torch.empty_like(x, dtype=device.fp8)
    return (
        StreamKernel("CastBf16", 6.0 * n, lambda _: out.copy_(wide)),
        StreamKernel("CastFp32", 6.0 * n, lambda _: wide.copy_(x)),
        StreamKernel("CastFp8", 3.0 * n, lambda _: eight.copy_(x)),
        StreamKernel("Residual", 6.0 * n, lambda _: torch.add(x, y, out=out)),
        StreamKernel("RmsNorm", 4.0 * n, lambda _: rms_norm(x, (WIDTH,), weight)),
        StreamKernel("SwiGlu", 6.0 * n, lambda _: silu(x) * y),
    )

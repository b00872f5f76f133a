"""Times matrix products in torch: normal data, operands that rotate through more memory than caches hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.measure.device import LARGEST_CPU_FLOPS, Device
from sim.measure.errors import one_line
from sim.measure.gemm_shapes import DTYPES, GemmShape
from sim.measure.stopwatch import Stopwatch, Timing
from sim.measure.telemetry import Reading, Watch

if TYPE_CHECKING:
    import torch

Product = Callable[[int], "torch.Tensor"]

OPERAND_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}
RESULT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 2}  # fp8 products leave in bf16
WORST_ERROR = 0.05  # relative to float64; rounding to bf16 costs 0.003
CORNER = 16  # rows and columns of the result that are checked


@dataclass(frozen=True)
class GemmTiming:
    shape: GemmShape
    timing: Timing
    copies: int
    error: float  # relative to float64, in the corner that is checked
    reading: Reading

    @property
    def rate_flops(self) -> float:
        return self.shape.flops / self.timing.median_s

    @property
    def rotating_bytes(self) -> int:
        return self.copies * set_bytes(self.shape)


def set_bytes(shape: GemmShape) -> int:
    """A, B and C together."""
    operands = (shape.m * shape.k + shape.k * shape.n) * OPERAND_BYTES[shape.dtype]
    return operands + shape.m * shape.n * RESULT_BYTES[shape.dtype]


def copies_of(one_set_bytes: int, rotating_bytes: int) -> int:
    """How many sets of operands fill ``rotating_bytes``."""
    return max(1, math.ceil(rotating_bytes / one_set_bytes))


def refusal(shape: GemmShape, device: Device) -> str | None:
    """Why ``shape`` cannot be measured here, before anything is allocated."""
    if shape.dtype not in DTYPES:
        return f"{shape.dtype} products are not measured; known: {', '.join(DTYPES)}"
    if not device.on_gpu and shape.flops > LARGEST_CPU_FLOPS:
        return f"{shape.flops:.2g} FLOP is too much for a trial on the CPU (up to {LARGEST_CPU_FLOPS:.0g})"
    needed = max(set_bytes(shape), device.rotating_bytes)
    if needed > 0.7 * device.free_bytes:
        return f"needs {needed / 1e9:.1f} GB, {device.free_bytes / 1e9:.1f} GB are free"
    return None


def measure_gemms(
    shapes: tuple[GemmShape, ...], device: Device, stopwatch: Stopwatch, say: Callable[[str], None]
) -> tuple[list[GemmTiming], dict[str, str]]:
    """Timings, and the reason for each shape that has none."""
    timings: list[GemmTiming] = []
    skipped: dict[str, str] = {}
    for shape in dict.fromkeys(shapes):
        reason = refusal(shape, device)
        if reason is None:
            try:
                found = measure_gemm(shape, device, stopwatch)
            except (RuntimeError, ValueError, NotImplementedError) as error:  # no kernel, no memory
                reason = one_line(error)
            else:
                if found.error <= WORST_ERROR:
                    timings.append(found)
                    say(f"gemm {shape}: {found.rate_flops / 1e12:.4g} TFLOP/s")
                    continue
                reason = f"wrong result: off by {found.error:.2g} from float64"
        skipped[str(shape)] = reason
        say(f"gemm {shape}: left out: {reason}")
    return timings, skipped


def measure_gemm(shape: GemmShape, device: Device, stopwatch: Stopwatch) -> GemmTiming:
    """Raises RuntimeError where torch has no kernel for it or the memory does not suffice."""
    copies = copies_of(set_bytes(shape), device.rotating_bytes)
    lefts, rights = operands(shape, copies, device)
    call = product(shape, lefts, rights)
    error = _relative_error(call(0), lefts[0], rights[0])
    with Watch(device) as watch:
        timing = stopwatch.time(call)
    return GemmTiming(shape, timing, copies, error, watch.median)


def operands(shape: GemmShape, copies: int, device: Device) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """``copies`` of A[m, k] and B[k, n], laid out in memory as ``shape.layout`` says."""
    weights_transposed, inputs_transposed = (letter == "T" for letter in shape.layout)
    # Column-major and row-major name the same memory the other way round: T is how torch keeps a weight [n, k].
    left = (copies, shape.k, shape.m) if inputs_transposed else (copies, shape.m, shape.k)
    right = (copies, shape.n, shape.k) if weights_transposed else (copies, shape.k, shape.n)
    lefts, rights = _normal(left, shape.dtype, device), _normal(right, shape.dtype, device)
    return (
        [a.T if inputs_transposed else a for a in lefts],
        [b.T if weights_transposed else b for b in rights],
    )


def _normal(size: tuple[int, int, int], dtype: str, device: Device) -> torch.Tensor:
    import torch

    if dtype == "fp8":
        return torch.randn(size, dtype=torch.bfloat16, device=device.handle).to(device.fp8)
    wide = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
    return torch.randn(size, dtype=wide, device=device.handle)


def product(shape: GemmShape, lefts: list[torch.Tensor], rights: list[torch.Tensor]) -> Product:
    """Multiplies the sets in turn; each has a result of its own."""
    import torch

    copies = len(lefts)
    if shape.dtype == "fp8":
        one = torch.ones((), device=lefts[0].device)

        def scaled(call: int) -> torch.Tensor:
            i = call % copies
            return torch._scaled_mm(  # noqa: SLF001 - torch's only 8-bit product
                lefts[i], rights[i], scale_a=one, scale_b=one, out_dtype=torch.bfloat16
            )

        return scaled
    results = [a.new_empty((shape.m, shape.n)) for a in lefts]

    def multiply(call: int) -> torch.Tensor:
        i = call % copies
        return torch.mm(lefts[i], rights[i], out=results[i])

    return multiply


def _relative_error(result: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> float:
    """Of the first corner of ``result`` against the product in float64."""
    # 8-bit tensors know few operators: go by float32, which holds them exactly.
    exact = left[:CORNER].float().double() @ right[:, :CORNER].float().double()
    corner = result[:CORNER, :CORNER].double()
    return float((corner - exact).norm() / exact.norm())

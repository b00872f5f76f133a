"""Which matrix products to measure: those of a scenario, and a sweep that every machine gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sim.ops import Gemm
from sim.program import Program

DTYPES = ("bf16", "fp16", "fp32", "fp8")

SQUARES = (512, 1024, 2048, 4096, 8192, 16384)
# Long loops: AMD's shape for the rate that a GPU sustains at its power limit, and K short and long beside it.
# Thin results: bound by memory.
OTHERS = ((4096, 4864, 32896), (4096, 4096, 512), (4096, 4096, 32768), (16, 8192, 8192), (256, 8192, 8192))
QUICK = ((2048, 2048, 2048), (8192, 8192, 8192), (4096, 4864, 32896), (16, 8192, 8192))
SMALL = ((64, 64, 64), (128, 256, 512), (16, 512, 512))


@dataclass(frozen=True)
class GemmShape:
    """C[m, n] = A[m, k] B[k, n] and how the operands lie in memory.

    ``layout`` is the BLAS name (column-major, first letter for the operand that holds the weights): TN for a
    layer's output (y = x Wᵀ), NN for its input gradient, NT for its weight gradient.
    """

    m: int
    n: int
    k: int
    dtype: str
    layout: str = "TN"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    def __str__(self) -> str:
        return f"{self.dtype} {self.layout} {self.m}x{self.n}x{self.k}"


def scenario_shapes(program: Program) -> tuple[GemmShape, ...]:
    """The distinct matrix products that one rank runs, largest first."""
    ahead: set[Gemm] = set()
    back: set[Gemm] = set()
    for task in program.tasks:
        found = back if task.kind == "backward" else ahead
        found.update(work.op for work in task.work if isinstance(work.op, Gemm))
    shapes = {_shape(op, "TN") for op in ahead}
    for op in back:
        shapes.update(_shape(op, layout) for layout in _backward_layouts(op, ahead))
    return tuple(sorted(shapes, key=lambda s: (-s.flops, str(s))))


def _backward_layouts(op: Gemm, forward: set[Gemm]) -> Iterator[str]:
    """How ``op`` of a backward task lies in memory: (t, out, in) forward has (t, in, out) and (out, in, t) behind it.

    What is neither is an output computed again.
    """
    as_input = Gemm(op.m, op.k, op.n, op.dtype) in forward
    as_weight = Gemm(op.k, op.m, op.n, op.dtype) in forward
    if as_input:
        yield "NN"
    if as_weight:
        yield "NT"
    if not as_input and not as_weight:
        yield "TN"


def _shape(op: Gemm, layout: str) -> GemmShape:
    # Libraries multiply 8-bit operands in TN only; frameworks transpose while they quantise.
    return GemmShape(op.m, op.n, op.k, op.dtype, layout if op.dtype in {"bf16", "fp16", "fp32"} else "TN")


def sweep(*, quick: bool, small: bool) -> tuple[GemmShape, ...]:
    """The standard shapes in all dtypes; ``small`` ones for a CPU."""
    sizes = SMALL if small else QUICK if quick else (*((s, s, s) for s in SQUARES), *OTHERS)
    return tuple(GemmShape(*size, dtype) for dtype in DTYPES for size in sizes)

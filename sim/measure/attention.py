"""Times torch's scaled_dot_product_attention, forward and backward apart."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sim.measure.device import LARGEST_CPU_FLOPS, Device
from sim.measure.errors import one_line
from sim.measure.gemm import copies_of
from sim.measure.stopwatch import Call, Stopwatch, Timing
from sim.ops import Attention
from sim.program import Program

if TYPE_CHECKING:
    import torch

Inputs = list[tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]]

TOKENS = 16384  # of one call of the sweep, whatever its sequence length
ELEMENT_BYTES = 2  # bf16

COLUMNS = (
    "gpu", "pass", "dtype", "mask", "batch", "heads_q", "heads_kv", "seq", "head_dim", "library", "tflops",
    "time_ms", "samples", "spread",
)  # fmt: skip


@dataclass(frozen=True)
class AttentionTiming:
    op: Attention
    timing: Timing

    @property
    def rate_flops(self) -> float:
        """By the convention of ``sim.ops.Attention``: the causal half, backward 2.5 times forward (unfused: all, 2)."""
        return self.op.flops / self.timing.median_s


def scenario_attention(program: Program) -> tuple[Attention, ...]:
    """The distinct attention ops that one rank runs."""
    found = (work.op for task in program.tasks for work in task.work if isinstance(work.op, Attention))
    return tuple(sorted(dict.fromkeys(found), key=_title))


def sweep(*, quick: bool, small: bool) -> tuple[Attention, ...]:
    """Causal grouped-query attention by sequence length; at one length also without mask and without groups."""
    lengths = (64, 128) if small else (2048, 8192) if quick else (1024, 2048, 4096, 8192, 16384, 32768)
    heads, kv_heads, head_dim = (4, 2, 32) if small else (32, 8, 128)
    ops = [
        Attention(
            1 if small else max(1, TOKENS // length), heads, kv_heads, length, head_dim,
            causal=True, backward=False, fused=True,
        )
        for length in lengths
    ]  # fmt: skip
    middle = ops[len(ops) // 2]
    ops += [replace(middle, causal=False), replace(middle, kv_heads=heads)]
    return tuple(replace(op, backward=backward) for op in ops for backward in (False, True))


def measure_attention(
    ops: tuple[Attention, ...], device: Device, stopwatch: Stopwatch, say: Callable[[str], None]
) -> tuple[list[AttentionTiming], dict[str, str]]:
    """Timings, and the reason for each op that has none."""
    timings: list[AttentionTiming] = []
    skipped: dict[str, str] = {}
    for op in dict.fromkeys(ops):
        reason = refusal(op, device)
        if reason is None:
            try:
                found = _measure(op, device, stopwatch)
            except (RuntimeError, NotImplementedError) as error:  # no kernel, no memory
                reason = one_line(error)
            else:
                timings.append(found)
                say(f"attention {_title(op)}: {found.rate_flops / 1e12:.4g} TFLOP/s")
                continue
        skipped[_title(op)] = reason
        say(f"attention {_title(op)}: left out: {reason}")
    return timings, skipped


def refusal(op: Attention, device: Device) -> str | None:
    """Why ``op`` cannot be measured here, before anything is allocated."""
    if not device.on_gpu and op.flops > LARGEST_CPU_FLOPS:
        return f"{op.flops:.2g} FLOP is too much for a trial on the CPU (up to {LARGEST_CPU_FLOPS:.0g})"
    # Gradients double the inputs; the unfused path keeps scores, probabilities and their gradients, partly in fp32.
    needed = max(3 * set_bytes(op), 2 * device.rotating_bytes)
    if not op.fused:
        needed += 16 * op.batch * op.heads * op.sequence_length**2
    if needed > 0.7 * device.free_bytes:
        return f"needs {needed / 1e9:.1f} GB, {device.free_bytes / 1e9:.1f} GB are free"
    return None


def set_bytes(op: Attention) -> int:
    """Q, K, V and the output."""
    return 2 * op.batch * (op.heads + op.kv_heads) * op.sequence_length * op.head_dim * ELEMENT_BYTES


def _measure(op: Attention, device: Device, stopwatch: Stopwatch) -> AttentionTiming:
    # An unfused product streams its scores through every cache: one set is enough, and all that fits.
    copies = copies_of(set_bytes(op), device.rotating_bytes) if op.fused else 1
    sets = [_inputs(op, device) for _ in range(copies)]
    with _kernels(op):
        call = _backward(op, sets) if op.backward else _forward(op, sets)
        return AttentionTiming(op, stopwatch.time(call))


def _inputs(op: Attention, device: Device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    def normal(heads: int) -> torch.Tensor:
        return torch.randn(
            (op.batch, heads, op.sequence_length, op.head_dim),
            dtype=torch.bfloat16, device=device.handle, requires_grad=op.backward,
        )  # fmt: skip

    return normal(op.heads), normal(op.kv_heads), normal(op.kv_heads)


def _kernels(op: Attention) -> AbstractContextManager[object]:
    """torch's own choice when fused, the plain matrix products otherwise."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    context: AbstractContextManager[object] = nullcontext() if op.fused else sdpa_kernel(SDPBackend.MATH)
    return context


def _attend(op: Attention, sets: Inputs, call: int) -> torch.Tensor:
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = sets[call % len(sets)]
    result: torch.Tensor = scaled_dot_product_attention(
        q, k, v, is_causal=op.causal, enable_gqa=op.heads != op.kv_heads
    )
    return result


def _forward(op: Attention, sets: Inputs) -> Call:
    return lambda call: _attend(op, sets, call)


def _backward(op: Attention, sets: Inputs) -> Call:
    import torch

    results = [_attend(op, sets, i) for i in range(len(sets))]
    gradients = [torch.randn_like(result) for result in results]

    def run(call: int) -> object:
        i = call % len(sets)
        return torch.autograd.grad(results[i], sets[i], gradients[i], retain_graph=True)

    return run


def attention_csv(timings: list[AttentionTiming], gpu: str) -> str:
    """One row per op."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(_row(timing, gpu) for timing in timings)
    return out.getvalue()


def _row(measured: AttentionTiming, gpu: str) -> tuple[object, ...]:
    op, timing = measured.op, measured.timing
    return (
        gpu,
        "bwd" if op.backward else "fwd",
        "bf16",
        "causal" if op.causal else "none",
        op.batch,
        op.heads,
        op.kv_heads,
        op.sequence_length,
        op.head_dim,
        "torch sdpa" if op.fused else "torch sdpa math",
        f"{measured.rate_flops / 1e12:.6g}",
        f"{timing.median_s * 1e3:.6g}",
        len(timing.samples_s),
        f"{timing.spread:.3g}",
    )


def _title(op: Attention) -> str:
    way = "backward" if op.backward else "forward"
    mask = "causal" if op.causal else "full"
    kernel = "" if op.fused else " unfused"
    return (
        f"{way}{kernel} {mask} batch {op.batch} heads {op.heads}/{op.kv_heads} "
        f"seq {op.sequence_length} dim {op.head_dim}"
    )

"""Matrix products as hipblaslt-bench prints them: one CSV, read by column names.

The library speaks column-major, so its m runs along a result's rows in memory: an op's m and n appear exchanged, and the
weights come first. Its "GB/s" are GiB (2**30). Five columns of ours stand at the end.
"""

from __future__ import annotations

import csv
import io

from sim.measure.gemm import GemmTiming, set_bytes

COLUMNS = (
    "transA", "transB", "grouped_gemm", "batch_count", "m", "n", "k", "alpha", "lda", "stride_a", "beta", "ldb",
    "stride_b", "ldc", "stride_c", "ldd", "stride_d", "a_type", "b_type", "c_type", "d_type", "compute_type",
    "scaleA", "scaleB", "scaleC", "scaleD", "amaxD", "swizzle_a", "swizzle_b", "activation_type", "bias_vector",
    "bias_type", "aux_type", "rotating_buffer", "flush", "use_gpu_timer", "hipblaslt-Gflops", "hipblaslt-GB/s",
    "us", "CPU-Gflops", "CPU-us", "norm_error", "atol", "rtol",
)  # fmt: skip
OURS = ("samples", "spread", "min-us", "sampled-clock-MHz", "sampled-power-W")

TYPES = {"bf16": "bf16_r", "fp16": "f16_r", "fp32": "f32_r"}


def hipblaslt_csv(timings: list[GemmTiming], *, fp8_type: str, gpu_timer: bool) -> str:
    """The whole file. ``fp8_type`` is f8_r or f8_fnuz_r."""
    out = io.StringIO()
    out.write("[0]:" + ",".join((*COLUMNS, *OURS)) + "\n")
    rows = csv.DictWriter(out, (*COLUMNS, *OURS), restval="", lineterminator="\n")
    for timing in timings:
        out.write("    ")
        rows.writerow(_row(timing, fp8_type, gpu_timer=gpu_timer))
    return out.getvalue()


def _row(measured: GemmTiming, fp8_type: str, *, gpu_timer: bool) -> dict[str, object]:
    shape, timing = measured.shape, measured.timing
    weights_transposed, inputs_transposed = (letter == "T" for letter in shape.layout)
    m, n, k = shape.n, shape.m, shape.k
    eight_bit = shape.dtype == "fp8"
    operand = fp8_type if eight_bit else TYPES[shape.dtype]
    result = "bf16_r" if eight_bit else operand
    return {
        "transA": shape.layout[0],
        "transB": shape.layout[1],
        "grouped_gemm": 0,
        "batch_count": 1,
        "m": m,
        "n": n,
        "k": k,
        "alpha": 1,
        "lda": k if weights_transposed else m,
        "stride_a": m * k,
        "beta": 0,
        "ldb": n if inputs_transposed else k,
        "stride_b": k * n,
        "ldc": m,
        "stride_c": m * n,
        "ldd": m,
        "stride_d": m * n,
        "a_type": operand,
        "b_type": operand,
        "c_type": result,
        "d_type": result,
        "compute_type": "f32_r",
        "scaleA": int(eight_bit),
        "scaleB": int(eight_bit),
        "scaleC": 0,
        "scaleD": 0,
        "amaxD": 0,
        "swizzle_a": 0,
        "swizzle_b": 0,
        "activation_type": "none",
        "bias_vector": 0,
        "rotating_buffer": measured.rotating_bytes // 2**20,
        "flush": 0,
        "use_gpu_timer": int(gpu_timer),
        "hipblaslt-Gflops": f"{measured.rate_flops / 1e9:.6g}",
        "hipblaslt-GB/s": f"{set_bytes(shape) / timing.median_s / 2**30:.6g}",
        "us": f"{timing.median_s * 1e6:.6g}",
        "norm_error": f"{measured.error:.3g}",
        "samples": len(timing.samples_s),
        "spread": f"{timing.spread:.3g}",
        "min-us": f"{timing.min_s * 1e6:.6g}",
        "sampled-clock-MHz": _optional(measured.reading.clock_MHz),
        "sampled-power-W": _optional(measured.reading.power_W),
    }


def _optional(value: float | None) -> str:
    return "" if value is None else f"{value:g}"

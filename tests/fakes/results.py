"""Step results made by hand, for tests of views: every number is invented."""

from __future__ import annotations

from typing import Any

from sim.results import Record, Source, StageMemory, StepResult

GIB = 2.0**30


def stage_memory(stage: int = 0, **changes: Any) -> StageMemory:
    facts: dict[str, Any] = {
        "stage": stage,
        "rank": 8 * stage,
        "verdict": "fits",
        "allocated_bytes": 120 * GIB,
        "reserved_bytes": (123.6 * GIB, 130.8 * GIB),
        "device_bytes": (125.2 * GIB, 133.4 * GIB),
        "parts_bytes": {
            "parameters": 16 * GIB,
            "gradients": 32 * GIB,
            "optimizer": 12 * GIB,
            "activations": 60 * GIB,
        },
        "peak_name": "output-layer backward of micro-batch 0",
        "capacity_bytes": 256 * GIB,
    }
    return StageMemory(**facts | changes)


def records() -> tuple[Record, ...]:
    """Two stages, one micro-batch: forward, send, backward, a gradient exchange, the optimizer, waits."""
    return (
        Record(0, 0, "compute", "forward mb0", "forward", "gemm", 0.0, 1.0, 0.0, 4e14),
        Record(0, 0, "compute", "forward mb0", "forward", "attention", 1.0, 1.25, 0.0, 5e13),
        Record(0, 0, "send", "activations mb0", "send", "pipeline", 1.25, 1.3, 6.7e7, 0.0),
        Record(0, 0, "compute", "backward mb0", "wait", "bubble", 1.25, 4.0, 0.0, 0.0),
        Record(0, 0, "compute", "backward mb0", "backward", "gemm", 4.0, 6.0, 0.0, 8e14),
        Record(0, 0, "collective", "gradients", "reduce_scatter", "data_parallel", 5.5, 6.5, 1e9, 0.0),
        Record(0, 0, "compute", "optimizer", "wait", "data_parallel", 6.0, 6.5, 0.0, 0.0),
        Record(0, 0, "compute", "optimizer", "optimizer", "optimizer", 6.5, 6.75, 3e10, 0.0),
        Record(1, 8, "compute", "forward mb0", "wait", "bubble", 0.0, 1.3, 0.0, 0.0),
        Record(1, 8, "compute", "forward mb0", "forward", "gemm", 1.3, 2.3, 0.0, 4e14),
        Record(1, 8, "compute", "backward mb0", "backward", "gemm", 2.3, 3.95, 0.0, 8e14),
    )


def step_result(**changes: Any) -> StepResult:
    facts: dict[str, Any] = {
        "scenario_name": "Example on 16 MI325X",
        "scenario_hash": "0123456789ab",
        "version": "0.1.0",
        "gpu": "MI325X",
        "stack": "example-stack-rocm-7.0",
        "stack_date": "2025-10-01",
        "model_title": "Llama 3.1 8B",
        "gpus": 16,
        "layout": {
            "tp": 1, "cp": 1, "pp": 2, "dp": 8, "micro_batch": 2, "microbatches": 1,
            "data_sharding": "zero-1", "schedule": "1f1b",
        },
        "step_time_s": 6.75,
        "tokens_per_step": 1_048_576.0,
        "tokens_per_s": 155_344.6,
        "tokens_per_s_per_gpu": 9_709.0,
        "tflops_per_gpu": 500.4,
        "mfu": 0.3829,
        "mfu_convention": "megatron",
        "mfu_peak_flops": 1.307e15,
        "mfu_peak_name": "dense bf16 peak",
        "breakdown_s": {"gemm": 3.0, "attention": 0.25, "bubble": 2.75, "data_parallel": 0.5, "optimizer": 0.25},
        "hidden_s": {"data_parallel": 0.5, "pipeline": 0.05},
        "memory": (stage_memory(0), stage_memory(1, allocated_bytes=60 * GIB, parts_bytes={"parameters": 60 * GIB})),
        "bottleneck": "matrix multiplies take 44 % of the step; the pipeline bubble another 41 %.",
        "records": records(),
        "sources": (
            Source("gpu mi325x", "hbm_bandwidth", "Example data sheet", "https://example.org/ds", "high"),
            Source("gpu mi325x", "achievable_flops.bf16", "Example data sheet", "https://example.org/ds", "high"),
            Source("stack example", "gemm_efficiency.bf16", "Example log", "https://example.org/log", "derived"),
        ),
        "assumed": ("stack example: kernel_gap 4 µs (no measurement published)",),
        "warnings": ("tensor parallelism off: sequence_parallel has no effect",),
    }  # fmt: skip
    return StepResult(**facts | changes)

"""Published runs that ran must fit: FSDP runs of MPT models whose micro batches were limited by memory.

Source: mosaicml/llm-foundry scripts/train/benchmarking/README.md, commit 8c8dd48f (Apache-2.0): 16-bit
computing, full sharding, all layers checkpointed or none. Assumed: flash-style cross-entropy
(4 bytes per logit), fp32 shards, 2 GiB of each GPU outside the allocator. All 209 16-bit rows of the
source fit; these are the ones nearest to the edge of each kind.
"""

from __future__ import annotations

import pytest

from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import MemoryFacts, MemoryRequest, StageMemory, memory_by_stage
from sim.workload.architecture import Architecture

GIB = 2.0**30
WIDTHS = {  # hidden, layers, heads
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16),
    "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56), "70b": (8192, 80, 64),
}  # fmt: skip
PUBLISHED = {"125m": 125311488, "7b": 6658859008, "30b": 29975214080, "70b": 64862437376}  # at 2048 positions

ROWS = [  # model, sequence length, GPUs, GiB of one GPU, micro batch, checkpointing
    ("1b", 2048, 32, 40, 10, False), ("3b", 2048, 32, 40, 6, False), ("350m", 2048, 16, 40, 18, False),
    ("3b", 8192, 8, 80, 3, False), ("1b", 2048, 16, 80, 20, False), ("30b", 8192, 8, 80, 1, True),
    ("760m", 8192, 8, 40, 3, False), ("13b", 8192, 8, 40, 1, True), ("7b", 2048, 8, 80, 6, False),
    ("70b", 2048, 64, 40, 2, True), ("70b", 2048, 64, 80, 8, True), ("125m", 4096, 8, 40, 13, False),
    ("7b", 65536, 8, 80, 1, True), ("13b", 2048, 8, 80, 2, False),
]  # fmt: skip


def mpt(model: str, sequence: int) -> Architecture:
    hidden, layers, heads = WIDTHS[model]
    return Architecture(
        name=f"mpt-{model}", title=f"MPT {model}", layers=layers, hidden=hidden, ffn=4 * hidden, heads=heads,
        kv_heads=heads, head_dim=hidden // heads, vocab=50368, mlp="gelu", norm="layernorm", position="learned",
        max_positions=sequence, tied_embeddings=True, qkv_bias=True, linear_bias=True, causal=True,
        published_parameters=None, source="test",
    )  # fmt: skip


def run(
    model: str,
    sequence: int,
    gpus: int,
    gpu_gib: int,
    micro_batch: int,
    checkpointing: bool,
    per_logit: float = 4.0,
) -> StageMemory:
    architecture = mpt(model, sequence)
    recompute = Recompute("full", (architecture.layers,)) if checkpointing else Recompute("none", (0,))
    where = Layout(
        tp=1, cp=1, pp=1, dp=gpus, stage_layers=(architecture.layers,), micro_batch=micro_batch, microbatches=1,
        sequence_parallel=False, data_sharding="fsdp", schedule="1f1b", recompute=recompute,
    )  # fmt: skip
    facts = MemoryFacts(
        hbm_bytes=(gpu_gib - 2) * GIB, fused_gradient_accumulation=False, cross_entropy_bytes_per_logit=per_logit,
        unfused_swiglu=False, vocab_padding_multiple=1, gemm_workspace_bytes=0.0, library_handle_bytes=0.0,
        reserved_ratio=(1.03, 1.09), context_bytes=0.0, communicator_bytes_first=0.0, communicator_bytes_further=0.0,
        master_weight_bytes=4.0, optimizer_moment_bytes=4.0,
    )  # fmt: skip
    return memory_by_stage(architecture, where, MemoryRequest(sequence, parameter_dtype="fp32"), facts)[0]


@pytest.mark.parametrize("model", PUBLISHED)
def test_parameters_are_those_of_the_source(model: str) -> None:
    assert mpt(model, 2048).parameters == pytest.approx(PUBLISHED[model], rel=1e-6)


@pytest.mark.parametrize(("model", "sequence", "gpus", "gpu_gib", "micro_batch", "checkpointing"), ROWS)
def test_runs_that_ran_fit(
    model: str, sequence: int, gpus: int, gpu_gib: int, micro_batch: int, checkpointing: bool
) -> None:
    assert run(model, sequence, gpus, gpu_gib, micro_batch, checkpointing).verdict != "does not fit"


@pytest.mark.parametrize(("model", "sequence", "gpus", "gpu_gib", "micro_batch", "checkpointing"), ROWS[:5])
def test_the_edge_is_near(
    model: str, sequence: int, gpus: int, gpu_gib: int, micro_batch: int, checkpointing: bool
) -> None:
    """Memory limited these batches: a quarter more of the tightest must not fit, and a plain cross-entropy of
    10 bytes per logit would call runs that ran impossible (59 of the 209)."""
    more = -(-5 * micro_batch // 4)
    assert run(model, sequence, gpus, gpu_gib, more, checkpointing).verdict == "does not fit"
    assert run(model, sequence, gpus, gpu_gib, micro_batch, checkpointing, 10.0).verdict == "does not fit"

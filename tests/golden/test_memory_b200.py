"""Allocated memory by stage of measured 8×B200 Megatron runs, to 0.1 %.

Source: MooreThreads/SimuMax v1.2, docs/b200/b200_release_v1.2_summary.json (Apache-2.0); maximum
allocated MiB over the ranks of a stage. Truncated Llama-3 models, micro batch 1, BF16, fp32 gradient
accumulation, ZeRO-1, sequence parallelism, fused cross-entropy, no recompute, NullTokenizer (one
token more). 4, 8 and 32 micro-batches measured the same values.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import MemoryFacts, MemoryRequest, StageMemory, memory_by_stage, worst
from sim.workload.architecture import Architecture
from sim.workload.catalog import architecture_from_mapping
from sim.workload.routing import Routing

MIB = 2.0**20

LLAMA_70B = Architecture(
    name="llama3-70b-12l", title="Llama 3 70B, 12 layers", layers=12, hidden=8192, ffn=28672, heads=64,
    kv_heads=8, head_dim=128, vocab=128256, mlp="swiglu", norm="rmsnorm", position="rope",
    max_positions=8192, tied_embeddings=False, qkv_bias=False, linear_bias=False, causal=True,
    published_parameters=None, source="test",
)  # fmt: skip
# These runs used 16 KV heads, not the 8 of the published model (kv_head_num in the source's
# configs/models/llama3-405b.json): with 8 every 405B row comes out 0.8 % too low.
LLAMA_405B = replace(
    LLAMA_70B, name="llama3-405b-4l", title="Llama 3 405B, 4 layers", layers=4, hidden=16384, ffn=53248,
    heads=128, kv_heads=16,
)  # fmt: skip

FACTS = MemoryFacts.from_mapping(
    180e9,
    {
        "fused_gradient_accumulation": 1,
        "cross_entropy_bytes_per_logit": 2,
        "unfused_swiglu": 0,
        "vocab_padding_multiple": 128,
        "gemm_workspace_bytes": 32 * MIB,
        "library_handle_bytes": 16 * MIB,
        "reserved_ratio_low": 1.03,
        "reserved_ratio_high": 1.09,
        "context_bytes": 0.5e9,
        "communicator_bytes_first": 1e9,
        "communicator_bytes_further": 0.65e9,
        "master_weight_bytes": 4,
        "optimizer_moment_bytes": 4,
    },
)

ROWS = [  # architecture, tp, cp, pp, sequence length, measured MiB by stage
    (LLAMA_70B, 1, 1, 2, 4096, (68149, 64479)),
    (LLAMA_70B, 2, 1, 1, 4096, (62136,)),
    (LLAMA_70B, 4, 1, 1, 4096, (40010,)),
    (LLAMA_70B, 8, 1, 1, 4096, (28965,)),
    (LLAMA_405B, 1, 1, 2, 4096, (88689, 89173)),
    (LLAMA_405B, 2, 1, 1, 4096, (83550,)),
    (LLAMA_405B, 4, 1, 1, 4096, (54158,)),
    (LLAMA_405B, 8, 1, 1, 4096, (39500,)),
    (LLAMA_70B, 2, 4, 1, 32768, (70071,)),
    (LLAMA_70B, 1, 8, 1, 32768, (107017,)),
    (LLAMA_405B, 2, 4, 1, 32768, (89114,)),
    (LLAMA_405B, 1, 8, 1, 32768, (142558,)),
    (LLAMA_70B, 2, 4, 1, 131072, (115372,)),
    (LLAMA_70B, 1, 8, 1, 131072, (151539,)),
    (LLAMA_405B, 2, 4, 1, 131072, (120963,)),
]
NAMES = [f"{a.name}-tp{t}cp{c}pp{p}-{s}" for a, t, c, p, s, _ in ROWS]


def b200(architecture: Architecture, tp: int, cp: int, pp: int, sequence: int, microbatches: int = 4,
         context_exchange: str = "all-to-all") -> tuple[StageMemory, ...]:  # fmt: skip
    layout = Layout(
        tp=tp,
        cp=cp,
        pp=pp,
        dp=8 // (tp * cp * pp),
        stage_layers=(architecture.layers // pp,) * pp,
        micro_batch=1,
        microbatches=microbatches,
        sequence_parallel=tp > 1,
        data_sharding="zero-1",
        schedule="1f1b",
        recompute=Recompute("none", (0,) * pp),
    )
    request = MemoryRequest(sequence, extra_vocab_tokens=1, context_exchange=context_exchange)
    return memory_by_stage(architecture, layout, request, FACTS)


@pytest.mark.parametrize(("architecture", "tp", "cp", "pp", "sequence", "measured_mib"), ROWS, ids=NAMES)
@pytest.mark.parametrize("microbatches", [4, 8, 32])
def test_allocated_by_stage(
    architecture: Architecture,
    tp: int,
    cp: int,
    pp: int,
    sequence: int,
    measured_mib: tuple[int, ...],
    microbatches: int,
) -> None:
    stages = b200(architecture, tp, cp, pp, sequence, microbatches)
    assert [s.allocated_bytes / MIB for s in stages] == pytest.approx(measured_mib, rel=1e-4)


EXPERT_ROWS = [  # model cut to 4 layers of which the first is dense, ep, pp, measured MiB by stage
    ("deepseek-v2", 8, 1, (46730,)),
    ("deepseek-v2", 4, 2, (32343, 45776)),
    ("deepseek-v3", 8, 1, (106804,)),
    ("deepseek-v3", 4, 2, (72949, 116738)),
]


@pytest.mark.parametrize(("base", "ep", "pp", "measured_mib"), EXPERT_ROWS)
def test_allocated_with_experts_and_latent_attention(
    base: str, ep: int, pp: int, measured_mib: tuple[int, ...]
) -> None:
    """Every expert computes the same number of rows, a whole one: only that meets both models."""
    model = architecture_from_mapping({"base": base, "layers": 4, "experts": {"dense_layers": 1}})
    layout = Layout(
        tp=1, cp=1, pp=pp, dp=8 // pp, stage_layers=(4 // pp,) * pp, micro_batch=1, microbatches=4,
        sequence_parallel=False, data_sharding="zero-1", schedule="1f1b",
        recompute=Recompute("none", (0,) * pp), ep=ep,
    )  # fmt: skip
    request = MemoryRequest(4096, extra_vocab_tokens=1, routing=Routing(capacity_factor=1.0))
    stages = memory_by_stage(model, layout, request, FACTS)
    assert [s.allocated_bytes / MIB for s in stages] == pytest.approx(measured_mib, rel=1e-3)
    assert {s.peak_name for s in stages} == {"token dispatch"}


def test_parts_of_the_first_70b_stages() -> None:
    """Parts published with the explanation of these runs (MiB, rounded)."""
    first, last = b200(LLAMA_70B, 1, 1, 2, 4096)
    states = ("parameters", "gradients", "optimizer")
    for stage, activations, dummies, transient in ((first, 12876, 1632, 512), (last, 6438, 3638, 1259)):
        parts = {name: size / MIB for name, size in stage.parts_bytes.items()}
        assert sum(parts[name] for name in states) == pytest.approx(53092, abs=1)
        assert parts["activations"] == pytest.approx(activations, abs=1)
        assert parts["weight_gradient_buffers"] == pytest.approx(dummies, abs=1)
        assert parts["transient"] == pytest.approx(transient, abs=1)
    assert (first.peak_name, last.peak_name) == ("MLP backward", "output layer backward")


def test_context_exchange_by_all_to_all_keeps_a_second_attention_output() -> None:
    """Measured: one output less would miss the 128k row by 2.7 %."""
    ring = b200(LLAMA_70B, 2, 4, 1, 131072, context_exchange="ring")[0].allocated_bytes / MIB
    assert ring / 115372 - 1 == pytest.approx(-0.027, abs=0.001)


def test_405b_with_the_published_heads_would_be_too_low() -> None:
    """The rows tell 16 KV heads from 8: the test above can see a 0.8 % error."""
    published = b200(replace(LLAMA_405B, kv_heads=8), 2, 1, 1, 4096)[0]
    assert published.allocated_bytes / MIB / 83550 - 1 == pytest.approx(-0.0077, abs=2e-4)


@pytest.mark.parametrize(("architecture", "reserved_gib"), [(LLAMA_70B, 70.88), (LLAMA_405B, 92.26)])
def test_reserved_range_holds_the_measured_reservations(
    architecture: Architecture, reserved_gib: float
) -> None:
    """Maximum reserved GiB of the tp1pp2 rows, same source."""
    low, high = worst(b200(architecture, 1, 1, 2, 4096)).reserved_bytes
    assert low <= reserved_gib * 2**30 <= high

"""Closed forms of the memory model, one mechanism at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sim.parallel.activations import layer_activations, saved_by_op
from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import MemoryFacts, MemoryRequest, memory_by_stage, verdict, worst
from sim.parallel.memory import communicator_bytes as communicators
from sim.parallel.states import layer_parameters, padded_vocabulary
from sim.workload.architecture import Architecture

GIB = 2.0**30

GPT = Architecture(
    name="gpt", title="GPT", layers=24, hidden=4096, ffn=16384, heads=32, kv_heads=32, head_dim=128,
    vocab=50304, mlp="gelu", norm="layernorm", position="learned", max_positions=2048, tied_embeddings=True,
    qkv_bias=True, linear_bias=True, causal=True, published_parameters=None, source="test",
)  # fmt: skip
LLAMA_8B = replace(
    GPT, name="llama-8b", layers=32, ffn=14336, kv_heads=8, vocab=128256, mlp="swiglu", norm="rmsnorm",
    position="rope", tied_embeddings=False, qkv_bias=False, linear_bias=False,
)  # fmt: skip
FACTS = MemoryFacts(
    hbm_bytes=192e9, fused_gradient_accumulation=True, cross_entropy_bytes_per_logit=6.0, unfused_swiglu=False,
    vocab_padding_multiple=128, gemm_workspace_bytes=2.0**25, library_handle_bytes=2.0**24,
    reserved_ratio=(1.03, 1.09), context_bytes=5e8, communicator_bytes_first=1.0 * GIB,
    communicator_bytes_further=0.65 * GIB, master_weight_bytes=4.0, optimizer_moment_bytes=4.0,
)  # fmt: skip


def layout(**changes: Any) -> Layout:
    plain = Layout(
        tp=1, cp=1, pp=1, dp=1, stage_layers=(32,), micro_batch=1, microbatches=8, sequence_parallel=False,
        data_sharding="zero-1", schedule="1f1b", recompute=Recompute("none", (0,)),
    )  # fmt: skip
    return replace(plain, **changes)


def even(pp: int, layers: int, recompute: str = "none", recomputed: int = 0, **changes: Any) -> Layout:
    spec = Recompute(recompute, (recomputed,) * pp)
    return layout(pp=pp, stage_layers=(layers // pp,) * pp, recompute=spec, **changes)


# Activations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_unfused_layer_is_the_formula_of_the_paper(tp: int) -> None:
    """Korthikanti et al. (arXiv:2205.05198), eq. 2: sbh(10 + 24/t + 5·a·s/(h·t)), and eq. 4 with sequence
    parallelism: everything over t. Norm statistics (4 fp32 per token) are ours."""
    s, b, h, a = 2048, 2, GPT.hidden, GPT.heads
    request = MemoryRequest(s, attention="unfused", dropout=0.1)
    whole = sum(saved_by_op(GPT, layout(tp=tp, micro_batch=b), request, FACTS).values())
    assert whole - 16 * s * b == pytest.approx(s * b * h * (10 + 24 / tp + 5 * a * s / (h * tp)))
    split = sum(
        saved_by_op(GPT, layout(tp=tp, micro_batch=b, sequence_parallel=True), request, FACTS).values()
    )
    assert split == pytest.approx(s * b * (h * (34 + 5 * a * s / h) + 16) / tp)


@pytest.mark.parametrize(
    ("architecture", "units"),
    [
        (replace(LLAMA_8B, hidden=8192, ffn=28672, heads=64), 33.5),
        (replace(LLAMA_8B, hidden=16384, ffn=53248, heads=128, kv_heads=16), 32.0),
    ],
)
def test_fused_layer_in_hidden_units_per_token(architecture: Architecture, units: float) -> None:
    """Llama 70B and 405B: 33.5 and 32.0 times h per token, statistics (4a + 8 bytes per token) apart."""
    saved = sum(saved_by_op(architecture, layout(), MemoryRequest(4096), FACTS).values())
    assert saved / 4096 - 4 * architecture.heads - 8 == pytest.approx(units * architecture.hidden)


def test_selective_recompute_drops_exactly_the_attention_core() -> None:
    request = MemoryRequest(2048, attention="unfused")
    layer = layer_activations(GPT, even(1, 24, "selective", 24), request, FACTS)
    assert layer.whole - layer.recomputed == 2 * GPT.heads * 2048 * 2048
    fused = layer_activations(GPT, even(1, 24, "selective", 24), MemoryRequest(2048), FACTS)
    assert fused.whole - fused.recomputed == 4 * GPT.heads * 2048


def test_unfused_attention_scores_dominate_long_sequences_and_recompute_frees_them() -> None:
    request = MemoryRequest(8192, attention="unfused")
    none, selective, full = (
        memory_by_stage(GPT, even(1, 24, kind, 24 if kind != "none" else 0), request, FACTS)[0]
        for kind in ("none", "selective", "full")
    )
    scores = 2 * GPT.heads * 8192.0**2
    assert none.parts_bytes["activations"] - selective.parts_bytes["activations"] == 24 * scores
    assert selective.peak_name == "attention backward"
    assert full.peak_name == "recomputed attention backward"
    assert none.allocated_bytes > selective.allocated_bytes > full.allocated_bytes


def test_unfused_swiglu_and_dropout_masks_of_a_2023_stack() -> None:
    """Llama-2-7B, micro batch 2, pp2 dp8: 60.3 GB fused, 66.0 unfused SwiGLU, 68.2 with dropout masks; a user
    measured 69.1 GB on rank 0 (NVIDIA/Megatron-LM pull 482): -1.3 %."""
    llama2 = replace(LLAMA_8B, ffn=11008, kv_heads=32, vocab=32000)
    where = even(2, 32, dp=8, micro_batch=2)
    facts = replace(FACTS, fused_gradient_accumulation=False)
    old = replace(facts, unfused_swiglu=True)
    gb = [
        memory_by_stage(llama2, where, MemoryRequest(4096, dropout=dropout), of)[0].allocated_bytes / 1e9
        for of, dropout in ((facts, 0.0), (old, 0.0), (old, 0.1))
    ]
    assert gb == pytest.approx([60.26, 66.03, 68.25], abs=0.01)
    assert gb[2] / 69.1 - 1 == pytest.approx(-0.012, abs=0.003)


# Pipeline and recompute -------------------------------------------------------------------------------


def test_middle_stages_fall_by_the_activations_of_one_micro_batch() -> None:
    """1F1B holds min(m, p - r): between stages without embedding or head the difference is constant."""
    stages = memory_by_stage(LLAMA_8B, even(8, 32, dp=4, microbatches=64), MemoryRequest(4096), FACTS)
    one = 4 * sum(saved_by_op(LLAMA_8B, layout(), MemoryRequest(4096), FACTS).values())
    middle = [s.allocated_bytes for s in stages[1:-1]]
    assert [a - b for a, b in pairwise(middle)] == pytest.approx([one] * 5)


def test_in_flight_rule_fits_a_measured_amd_pipeline() -> None:
    """Reserved GiB of stages 1..6 of a 64-layer PP8 run (AMD-AGI/Primus pp_vis example): one slope, 0.3 GiB."""
    measured = (95.6, 88.1, 80.3, 73.1, 65.9, 58.1)
    where = even(8, 64, microbatches=64)
    x = [where.in_flight(stage) for stage in range(1, 7)]
    mean_x, mean_y = sum(x) / 6, sum(measured) / 6
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, measured, strict=True))
    slope /= sum((a - mean_x) ** 2 for a in x)
    assert slope == pytest.approx(7.5, abs=0.05)
    assert max(abs(b - mean_y - slope * (a - mean_x)) for a, b in zip(x, measured, strict=True)) < 0.3


def test_gpipe_holds_every_micro_batch_and_its_softmax() -> None:
    request = MemoryRequest(4096)
    one, gpipe = (
        memory_by_stage(LLAMA_8B, even(2, 32, dp=4, schedule=s), request, FACTS)[1] for s in ("1f1b", "gpipe")
    )
    layers = 16 * sum(saved_by_op(LLAMA_8B, layout(), request, FACTS).values())
    waiting = layers + 2 * 2 * 4096 * 4096 + 4 * 4096 * 128256
    assert gpipe.allocated_bytes - one.allocated_bytes == pytest.approx(7 * waiting)


def test_recomputed_layers_save_whole_minus_input_times_in_flight() -> None:
    """Measured on MI355X (AMD-AGI/Primus PR 965), GB: 2 of 10 layers -11.5 on stage 0 of 2 and -5.8 on stage 1;
    all ten -54.9 on stage 0. With x = whole - input: 4x, 2x, and 20x less one working set x."""
    request = MemoryRequest(4096)
    base, two, ten = (
        memory_by_stage(LLAMA_8B, even(2, 20, "full", k, dp=4), request, FACTS) for k in (0, 2, 10)
    )
    layer = layer_activations(LLAMA_8B, even(2, 20, "full", 2), request, FACTS)
    x = layer.whole - layer.recomputed
    drops = (
        base[0].allocated_bytes - two[0].allocated_bytes,
        base[1].allocated_bytes - two[1].allocated_bytes,
        base[0].allocated_bytes - ten[0].allocated_bytes,
    )
    assert drops == pytest.approx((4 * x, 2 * x, 19 * x))
    measured_x = 11.5 / 4
    assert [drop / x * measured_x for drop in drops[1:]] == pytest.approx([5.8, 54.9], rel=0.01)


# States and sharding ----------------------------------------------------------------------------------


def test_layer_parameters_match_the_architecture_and_split_over_tp() -> None:
    for architecture in (GPT, LLAMA_8B):
        assert layer_parameters(architecture, 1) == architecture.layer_parameters
    # 70B: [h(a+2k)d + adh + 3hf]/t + 2h
    assert layer_parameters(LLAMA_8B, 8) == (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336) / 8 + 2 * 4096


@pytest.mark.parametrize(("tp", "padded"), [(1, 128384), (2, 128512), (4, 128512), (8, 129024)])
def test_vocabulary_padding(tp: int, padded: int) -> None:
    assert padded_vocabulary(128256, tp, 128, 1) == padded


@pytest.mark.parametrize(("sharding", "expected"), [("ddp", 18.0), ("zero-1", 6 + 12 / 8), ("fsdp", 18 / 8)])
def test_bytes_per_parameter_by_sharding(sharding: str, expected: float) -> None:
    """Context-parallel ranks share the shard too: dp·cp = 4·2."""
    where = layout(dp=4, cp=2, data_sharding=sharding)
    facts = replace(FACTS, vocab_padding_multiple=1)
    parts = memory_by_stage(LLAMA_8B, where, MemoryRequest(4096), facts)[0].parts_bytes
    states = parts["parameters"] + parts["gradients"] + parts["optimizer"]
    assert states == pytest.approx(expected * LLAMA_8B.parameters)


def test_tied_table_is_copied_to_the_last_stage_only_with_a_pipeline() -> None:
    facts = replace(FACTS, vocab_padding_multiple=1)
    single = memory_by_stage(GPT, even(1, 24), MemoryRequest(2048), facts)[0]
    assert single.parts_bytes["parameters"] == 2 * GPT.parameters
    both = memory_by_stage(GPT, even(2, 24), MemoryRequest(2048), facts)
    assert sum(s.parts_bytes["parameters"] for s in both) == 2 * (GPT.parameters + GPT.vocab * GPT.hidden)


def test_fsdp_slope_is_16_bytes_over_the_shard_group() -> None:
    """torchtitan Llama-3.1-8B from 8 to 128 GPUs: 16·N·(1/8 - 1/128) = 14.0 GiB (reserved: 15.0 and 15.4)."""
    facts = replace(FACTS, vocab_padding_multiple=1)
    request = MemoryRequest(8192, parameter_dtype="fp32")
    eight, many = (
        memory_by_stage(LLAMA_8B, layout(dp=n, data_sharding="fsdp"), request, facts) for n in (8, 128)
    )
    slope = eight[0].allocated_bytes - many[0].allocated_bytes
    assert slope == pytest.approx(16 * LLAMA_8B.parameters * (1 / 8 - 1 / 128))
    assert slope / GIB == pytest.approx(14.0, abs=0.05)
    assert 15.0 / 1.09 <= slope / GIB <= 15.4 / 1.03


def test_fsdp_gathers_blocks_and_the_root_in_the_computing_format() -> None:
    facts = replace(FACTS, vocab_padding_multiple=1)
    where = layout(dp=8, data_sharding="fsdp")
    root = 2 * LLAMA_8B.vocab * LLAMA_8B.hidden + LLAMA_8B.hidden

    def parts(**changes: Any) -> Mapping[str, float]:
        request = MemoryRequest(4096, parameter_dtype="fp32", **changes)
        return memory_by_stage(LLAMA_8B, where, request, facts)[0].parts_bytes

    assert parts()["gathered_parameters"] == 2 * (2 * LLAMA_8B.layer_parameters + root)
    assert parts(prefetch=0)["gathered_parameters"] == 2 * (LLAMA_8B.layer_parameters + root)
    assert parts(reshard=False)["gathered_parameters"] == 2 * LLAMA_8B.parameters
    assert parts()["gradient_reduction"] == 4 * LLAMA_8B.layer_parameters + 2 * root
    assert parts(gradient_dtype="bf16")["gradient_reduction"] == 2 * (LLAMA_8B.layer_parameters + root)
    assert parts()["weight_gradient_buffers"] == 0.0


def test_fsdp_70b_on_eight_mi355x_against_its_reservation() -> None:
    """30 of 80 layers recomputed, 8k tokens: 201 GB reserved in iteration 1, before the moments exist
    (AMD-AGI/Primus PR 884); Primus prints GiB as GB. The cross-entropy kernel is not stated."""
    llama = replace(LLAMA_8B, layers=80, hidden=8192, ffn=28672, heads=64)
    where = layout(dp=8, stage_layers=(80,), data_sharding="fsdp", recompute=Recompute("full", (30,)))
    for cross_entropy in ("fused", "unfused"):
        request = MemoryRequest(8192, parameter_dtype="fp32", cross_entropy=cross_entropy)
        stage = memory_by_stage(llama, where, request, FACTS)[0]
        first_iteration = stage.allocated_bytes - stage.parts_bytes["optimizer"]
        assert 1.03 <= 201 * GIB / first_iteration <= 1.09


def test_lora_trains_adapters_only() -> None:
    """Adapters on qkv and proj: rank·(h + q + 2kv + q + h) per layer, 18 bytes each; the base keeps 2."""
    facts = replace(FACTS, vocab_padding_multiple=1)
    request = MemoryRequest(4096, lora_rank=16, lora_targets=("qkv", "proj"))
    parts = memory_by_stage(LLAMA_8B, layout(), request, facts)[0].parts_bytes
    adapters = 32 * 16 * (4096 + 6144 + 4096 + 4096)
    assert parts["parameters"] == 2 * (LLAMA_8B.parameters + adapters)
    assert parts["gradients"] + parts["optimizer"] == 16 * adapters
    assert parts["weight_gradient_buffers"] == 0.0


def test_lora_keeps_no_input_that_only_a_base_weight_gradient_needs() -> None:
    tokens, h, f = 4096, LLAMA_8B.hidden, LLAMA_8B.ffn
    plain = sum(saved_by_op(LLAMA_8B, layout(), MemoryRequest(tokens), FACTS).values())
    both = MemoryRequest(tokens, lora_rank=16, lora_targets=("qkv", "proj"))
    one = MemoryRequest(tokens, lora_rank=16, lora_targets=("proj",))
    saved_both, saved_one = (sum(saved_by_op(LLAMA_8B, layout(), r, FACTS).values()) for r in (both, one))
    assert plain - saved_both == 2 * tokens * (h + f) - 2 * 2 * tokens * 16
    assert saved_both - saved_one == 2 * tokens * h + 2 * tokens * 16


@pytest.mark.parametrize(
    ("capacity_gib", "recomputed", "fits"), [(192, 21, True), (192, 0, False), (256, 0, True)]
)
def test_mlperf_lora_recipes_recompute_what_their_gpu_lacks(
    capacity_gib: int, recomputed: int, fits: bool
) -> None:
    """MLPerf Training 5.0 Llama-2-70B LoRA, fp8 base, one sequence of 8192 per GPU: MI300X (192 GiB) submissions
    recompute 21 of 80 layers, MI325X (256 GiB) ones none. With 16-bit base weights none would safely fit."""
    llama2 = replace(LLAMA_8B, layers=80, hidden=8192, ffn=28672, heads=64, vocab=32000)
    spec = Recompute("full", (recomputed,))
    where = layout(stage_layers=(80,), dp=8, microbatches=1, data_sharding="ddp", recompute=spec)
    facts = replace(FACTS, hbm_bytes=capacity_gib * GIB)
    request = MemoryRequest(8192, precision="fp8", lora_rank=16, lora_targets=("qkv", "proj"))
    stage = memory_by_stage(llama2, where, request, facts)[0]
    assert (stage.verdict == "fits") is fits
    sixteen = replace(request, precision="bf16")
    assert memory_by_stage(llama2, where, sixteen, facts)[0].verdict != "fits"


def test_optimizer_step_is_the_peak_when_activations_are_small() -> None:
    """16-bit gradients are cast to fp32: 4 bytes per updated parameter, more than one short micro-batch."""
    request = MemoryRequest(128, gradient_dtype="bf16")
    stage = memory_by_stage(LLAMA_8B, layout(microbatches=1), request, FACTS)[0]
    assert stage.peak_name == "optimizer step"
    assert stage.parts_bytes["activations"] == 0.0
    assert stage.parts_bytes["transient"] == pytest.approx(4 * LLAMA_8B.parameters, rel=1e-3)


def test_embedding_backward_is_the_peak_of_a_first_stage_with_a_huge_vocabulary() -> None:
    request = MemoryRequest(512)
    wide = replace(LLAMA_8B, vocab=1_280_000)
    stage = memory_by_stage(wide, even(2, 4, microbatches=4), request, FACTS)[0]
    assert stage.peak_name == "embedding backward"
    assert stage.parts_bytes["transient"] == 2 * 1_280_000 * 4096
    frozen = replace(request, lora_rank=8, lora_targets=("qkv",))
    assert memory_by_stage(wide, even(2, 4, microbatches=4), frozen, FACTS)[0].peak_name == "MLP backward"


def test_fp32_doubles_saved_tensors() -> None:
    sixteen = saved_by_op(LLAMA_8B, layout(), MemoryRequest(4096), FACTS)
    thirty_two = saved_by_op(LLAMA_8B, layout(), MemoryRequest(4096, precision="fp32"), FACTS)
    for op, size in sixteen.items():
        assert thirty_two[op] == size * (1 if "statistics" in op else 2)


# What the user is told --------------------------------------------------------------------------------


def test_verdict_tells_allocated_from_device_used() -> None:
    assert verdict(100.0, 120.0, 130.0, 130.0) == "fits"
    assert verdict(100.0, 120.0, 120.0, 120.0) == "fits"
    assert verdict(100.0, 120.0, 110.0, 110.0) == "at risk"
    assert verdict(100.0, 120.0, 99.0, 99.0) == "does not fit"
    assert verdict(100.0, 120.0, 130.0, 99.0) == "does not fit"


def test_outside_the_allocator_counts_one_communicator_per_axis() -> None:
    assert communicators(layout(), FACTS) == 0.0
    assert communicators(layout(tp=8), FACTS) == GIB
    where = even(2, 32, tp=8, dp=4)
    stage = memory_by_stage(LLAMA_8B, where, MemoryRequest(4096), FACTS)[0]
    assert communicators(where, FACTS) == pytest.approx(2.3 * GIB)
    assert stage.device_bytes[0] == pytest.approx(1.03 * stage.allocated_bytes + 5e8 + 2.3 * GIB)
    assert stage.device_bytes[1] - stage.reserved_bytes[1] == pytest.approx(5e8 + 2.3 * GIB)


def test_ranks_of_a_stage_are_contiguous_and_the_worst_is_named() -> None:
    where = even(2, 32, tp=2, dp=2, sequence_parallel=True)
    stages = memory_by_stage(LLAMA_8B, where, MemoryRequest(4096), FACTS)
    assert [s.rank_label for s in stages] == ["stage 0, ranks 0-3", "stage 1, ranks 4-7"]
    assert [s.rank for s in stages] == [0, 4]
    assert worst(stages) is max(stages, key=lambda s: s.allocated_bytes)
    with pytest.raises(ValueError, match="no stage"):
        worst(())


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (layout(pp=2), "1 stages are given for pp = 2"),
        (layout(recompute=Recompute("full", (33,))), "holds 32 layers, cannot recompute 33"),
        (layout(recompute=Recompute("full", ())), "0 layer counts are given for pp = 1"),
        (layout(recompute=Recompute("some", (1,))), "unknown kind 'some'"),
    ],
)
def test_contradictory_layouts_are_refused(where: Layout, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        memory_by_stage(LLAMA_8B, where, MemoryRequest(4096), FACTS)

"""Selective recomputation: each part of a layer costs its own forward and saves its own activations."""

from __future__ import annotations

import math

import pytest
from fakes.scenarios import small

from sim.ops import Gemm, GroupedGemm, TokenExchange
from sim.step import Step

DENSE = ("model.layers=4",)
EXPERTS = (
    "model={name: m, layers: 4, hidden: 1024, ffn: 2816, heads: 16, kv_heads: 8, vocab: 2048, "
    "experts: {count: 8, top_k: 2, ffn: 704, shared_ffn: 1408, dense_layers: 1}}"
)
ROUTED = (EXPERTS, "parallelism.ep=4")
TOKENS, HIDDEN, FFN, LAYERS = 2048, 1024, 2816, 4


def step(modules: str, *changes: str) -> Step:
    return Step(small(*changes, f"training.recompute={{modules: [{modules}]}}"))


def again(found: Step) -> list[tuple[object, float]]:
    """Ops that run again in the backward of one micro-batch, with their counts."""
    return [
        (w.op, w.count)
        for task in found.program.tasks
        for w in task.work
        if w.cause == "recompute" and task.microbatch == 0
    ]


def activations(found: Step) -> float:
    return found.result.memory[0].parts_bytes["activations"]


NONE = Step(small(*DENSE))


def test_the_attention_core_is_what_selective_means() -> None:
    word = Step(small(*DENSE, "training.recompute=selective"))
    assert step("core_attn", *DENSE).result.step_time_s == word.result.step_time_s


def test_an_mlp_runs_both_products_again_and_keeps_its_input_only() -> None:
    found = step("mlp", *DENSE)
    flops = math.fsum(op.flops * count for op, count in again(found) if isinstance(op, Gemm))
    assert flops == LAYERS * 2.0 * TOKENS * HIDDEN * 3 * FFN
    saved = activations(NONE) - activations(found)
    assert saved == LAYERS * 2.0 * TOKENS * 3 * FFN  # gate, up and their product, in 16 bits


def test_norms_cost_no_products_and_save_two_hidden_states() -> None:
    found = step("layernorm", *DENSE)
    assert not [op for op, _ in again(found) if isinstance(op, Gemm)]
    assert activations(NONE) - activations(found) == LAYERS * 2 * 2.0 * TOKENS * HIDDEN
    assert found.result.step_time_s > NONE.result.step_time_s


def test_what_is_made_again_is_there_while_its_layer_goes_backward() -> None:
    narrow = (*DENSE, "model.vocab=512")  # whose logits are not the peak
    found, none = (one.result.memory[0] for one in (step("mlp", *narrow), Step(small(*narrow))))
    drop = none.allocated_bytes - found.allocated_bytes
    assert 0.0 < drop < none.parts_bytes["activations"] - found.parts_bytes["activations"]


def test_a_routed_block_sends_its_tokens_again() -> None:
    whole, function = step("moe", *ROUTED), step("moe_act", *ROUTED)
    exchanges = sum(count for op, count in again(whole) if isinstance(op, TokenExchange))
    assert exchanges == 2 * 3  # there and back, in three layers with experts
    assert [op for op, _ in again(whole) if isinstance(op, GroupedGemm)]
    assert not [op for op, _ in again(function) if isinstance(op, Gemm | GroupedGemm | TokenExchange)]


def test_parts_that_exclude_each_other_add_up() -> None:
    base = Step(small(*ROUTED))
    times = {
        m: step(m, *ROUTED).result.step_time_s - base.result.step_time_s for m in ("mlp", "moe", "core_attn")
    }
    together = step("mlp, moe, core_attn", *ROUTED).result.step_time_s - base.result.step_time_s
    assert together == pytest.approx(sum(times.values()), rel=1e-4)  # gradients travel beside the last


def test_latent_attention_makes_its_heads_again() -> None:
    latent = (
        "model={name: m, layers: 2, hidden: 1024, ffn: 2816, heads: 16, vocab: 2048, "
        "latent: {query_rank: 256, kv_rank: 128, plain_dim: 64, rope_dim: 32, value_dim: 64}}"
    )
    base, found = Step(small(latent)), step("mla_up_proj", latent)
    shapes = {(op.n, op.k) for op, _ in again(found) if isinstance(op, Gemm)}
    assert shapes == {(16 * 96, 256), (16 * 128, 128)}
    assert activations(base) - activations(found) == 2 * 2.0 * TOKENS * 16 * (2 * 96 + 64)

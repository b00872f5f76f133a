"""What attention holds while it runs: other ranks' keys and values, partial gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.parallel.attention_buffers import accumulator_bytes, exchange_bytes, key_blocks
from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import MemoryFacts, MemoryRequest, memory_by_stage
from sim.scenario import ScenarioError
from sim.step import simulate
from sim.workload.catalog import architecture
from tests.fakes.scenarios import small

LLAMA = architecture("llama-3.1-8b")
FACTS = MemoryFacts(
    hbm_bytes=192e9, fused_gradient_accumulation=True, cross_entropy_bytes_per_logit=2.0, unfused_swiglu=False,
    vocab_padding_multiple=128, gemm_workspace_bytes=2.0**25, library_handle_bytes=2.0**24,
    reserved_ratio=(1.03, 1.09), context_bytes=5e8, communicator_bytes_first=1e9,
    communicator_bytes_further=7e8, master_weight_bytes=4.0, optimizer_moment_bytes=4.0, deterministic_keys=128.0,
)  # fmt: skip


def plan(cp: int, tp: int = 1) -> Layout:
    return Layout(
        tp=tp, cp=cp, pp=1, dp=1, stage_layers=(32,), micro_batch=1, microbatches=4, sequence_parallel=tp > 1,
        data_sharding="zero-1", schedule="1f1b", recompute=Recompute("full", (32,)),
    )  # fmt: skip


def request(method: str) -> MemoryRequest:
    return MemoryRequest(131072, context_exchange=method)


@pytest.mark.parametrize("tp", [1, 4])
def test_gathered_keys_and_values_are_those_of_the_whole_sequence_and_their_gradients(tp: int) -> None:
    whole = 2.0 * 2.0 * 131072 * LLAMA.kv_width / tp  # keys and values, two bytes each
    assert exchange_bytes(LLAMA, plan(8, tp), request("all-gather")) == 2.0 * whole
    assert exchange_bytes(LLAMA, plan(16, tp), request("all-gather")) == 2.0 * whole


def test_a_ring_holds_two_blocks_and_two_of_their_gradients() -> None:
    block = 2.0 * 2.0 * 131072 / 8 * LLAMA.kv_width
    assert exchange_bytes(LLAMA, plan(8), request("ring")) == 4.0 * block


def test_nothing_is_exchanged_without_context_parallelism() -> None:
    assert exchange_bytes(LLAMA, plan(1), request("ring")) == 0.0
    assert exchange_bytes(LLAMA, plan(8), request("all-to-all")) == 0.0


def test_attention_peaks_where_its_buffers_exceed_the_mlp() -> None:
    """Keys as many as queries: the gathered sequence outweighs what the MLP of a sixteenth of it keeps."""
    many = replace(LLAMA, kv_heads=32)
    gathered = memory_by_stage(many, plan(16), request("all-gather"), FACTS)[0]
    ring = memory_by_stage(many, plan(16), request("ring"), FACTS)[0]
    assert gathered.peak_name == "recomputed attention backward"
    assert gathered.allocated_bytes > ring.allocated_bytes


def test_a_deterministic_backward_keeps_every_block_of_keys() -> None:
    asked = replace(request("ring"), sequence_length=4096, deterministic=True)
    assert accumulator_bytes(LLAMA, plan(1), asked, FACTS) == 32 * 4096 * LLAMA.q_width * 4.0
    assert accumulator_bytes(LLAMA, plan(1), replace(asked, deterministic=False), FACTS) == 0.0


def test_wide_heads_take_half_the_keys() -> None:
    assert key_blocks(4096, 128, 128.0) == 32
    assert key_blocks(4096, 192, 128.0) == 64
    with pytest.raises(ValueError, match="does not say"):
        key_blocks(4096, 128, 0.0)


MAXTEXT = ("cluster.node=mi355x-8x400g", "cluster.stack=maxtext-2026-mi355x")


def test_a_fixed_order_costs_time_in_attention_alone() -> None:
    plain = simulate(small(*MAXTEXT))
    ordered = simulate(small(*MAXTEXT, "training.deterministic_attention=true"))
    changed = {k for k in plain.breakdown_s if ordered.breakdown_s[k] != pytest.approx(plain.breakdown_s[k])}
    assert changed <= {"attention", "data_parallel"}  # more to hide an exchange under
    assert ordered.breakdown_s["attention"] > plain.breakdown_s["attention"]


def test_stored_inputs_in_8_bits_halve_and_cost_two_casts() -> None:
    """Per layer and micro-batch: a byte less per element of the MLP's first product; five bytes moved each way."""
    plain, stored = simulate(small()), simulate(small("training.activation_store=fp8"))
    elements = 2048 * 2 * 2816
    saved = plain.worst_memory.parts_bytes["activations"] - stored.worst_memory.parts_bytes["activations"]
    assert saved == pytest.approx(4 * elements)
    assert stored.breakdown_s["streaming"] > plain.breakdown_s["streaming"]


def test_what_kernels_keep_must_be_known() -> None:
    with pytest.raises(ScenarioError, match=r"memory\.deterministic_keys"):
        small("training.deterministic_attention=true")

"""Models with experts: counts, FLOPs, routing, what a rank does and how communication of tokens is priced."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels import catalog
from hwmodels.cluster import Cluster
from hwmodels.expert_exchange import token_exchange_s
from sim.ops import (
    AccumulateGradients,
    Attention,
    Collective,
    Gemm,
    Group,
    GroupedGemm,
    Launches,
    Stream,
    TokenExchange,
)
from sim.parallel.activations import saved_by_op
from sim.parallel.layer_work import LayerWork
from sim.parallel.memory import MemoryFacts, MemoryRequest
from sim.parallel.mesh import Mesh
from sim.parallel.sharding import Shard
from sim.pricing import op_seconds, price
from sim.program import COMPUTE, Program, Task, Work
from sim.scenario import loads, to_yaml
from sim.step import Step
from sim.workload.catalog import (
    ArchitectureError,
    architecture,
    architecture_from_mapping,
    architecture_names,
)
from sim.workload.experts import Experts
from sim.workload.routing import Routing
from sim.workload.workload import Workload
from tests.fakes.scenarios import small

ROUTED = [name for name in architecture_names() if architecture(name).experts]
SMALL = {
    "layers": 4, "hidden": 512, "ffn": 2048, "heads": 8, "kv_heads": 8, "vocab": 32000,
    "experts": {"count": 16, "top_k": 2, "ffn": 512, "shared_ffn": 512, "dense_layers": 1},
}  # fmt: skip


def step(
    parallelism: dict[str, Any] | None = None, moe: dict[str, Any] | None = None, **training: Any
) -> Step:
    model = training.pop("model", SMALL)
    scenario = {
        "model": model,
        "cluster": {"node": "mi355x-8x400g", "nodes": training.pop("nodes", 1)},
        "training": {
            "sequence_length": 4096, "global_batch": 64, "precision": "bf16", **training,
            **({"moe": moe} if moe else {}),
        },
        "parallelism": parallelism or {},
    }  # fmt: skip
    return Step(loads(json.dumps(scenario)))


def flops(found: Step) -> float:
    tasks = found.program.tasks
    per_role = sum(work.count * work.op.flops for task in tasks for work in task.work)
    return per_role * found.scenario.gpus / found.family.layout.pp


@pytest.mark.parametrize("name", [name for name in ROUTED if architecture(name).published_parameters])
def test_counts_are_within_half_a_percent_of_published_ones(name: str) -> None:
    model = architecture(name)
    assert model.parameters == pytest.approx(model.published_parameters, rel=0.005)


# Millions that a token meets, embedding and output layer included or not as each source counts them.
@pytest.mark.parametrize(
    ("name", "active", "without_embedding"),
    [("gpt-oss-20b", 3.61e9, True), ("gpt-oss-120b", 5.13e9, True), ("mixtral-8x7b", 12.9e9, False),
     ("deepseek-v2", 21e9, False), ("qwen3-235b-a22b", 22e9, False), ("qwen3-30b-a3b", 3.3e9, False)],
)  # fmt: skip
def test_active_parameters_are_the_published_ones(name: str, active: float, without_embedding: bool) -> None:
    model = architecture(name)
    found = model.active_parameters - (model.embedding_parameters if without_embedding else 0)
    assert found == pytest.approx(active, rel=0.02)


# What Primus and Megatron-LM print per token (causal attention at half), in GFLOP.
@pytest.mark.parametrize(
    ("name", "gflop"),
    [("deepseek-v3", 250.4), ("deepseek-v3-mtp", 260.6), ("qwen3-235b-a22b", 148.05)],
)
def test_flops_per_token_are_those_that_frameworks_print(name: str, gflop: float) -> None:
    found = Workload(architecture(name), 4096, "bf16").model_flops_per_token()
    assert found / 1e9 == pytest.approx(gflop, rel=2e-3)


def test_latent_attention_counts_values_at_their_own_width() -> None:
    """Per layer 187.1 million weights for DeepSeek-V3; a value width of 192 would make it a third more."""
    assert architecture("deepseek-v3").attention_parameters == 187_105_280
    wide = Attention(1, 128, 128, 4096, 192, True, False, True)
    own = Attention(1, 128, 128, 4096, 192, True, False, True, value_dim=128)
    assert own.flops == pytest.approx(wide.flops * (192 + 128) / 384)


def test_a_window_leaves_a_band() -> None:
    """s rows of at most w keys: s·w − w²/2 pairs, all pairs below the diagonal when w is s."""
    full = Attention(1, 1, 1, 1024, 64, True, False, True)
    band = Attention(1, 1, 1, 1024, 64, True, False, True, window=128)
    assert band.visible * 1024**2 == pytest.approx(1024 * 128 - 128**2 / 2)
    assert Attention(1, 1, 1, 1024, 64, True, False, True, window=1024).flops == full.flops


def test_layers_of_one_model_differ() -> None:
    model = architecture("deepseek-v3")
    assert [kind.routed for kind in model.kinds[:4]] == [False, False, False, True]
    assert sum(kind.routed for kind in model.kinds) == model.routed_layers == 58
    assert [kind.window for kind in architecture("gpt-oss-20b").kinds[:4]] == [128, 0, 128, 0]
    assert [kind.routed for kind in architecture("llama-4-maverick-400b").kinds[:4]] == [
        False,
        True,
        False,
        True,
    ]


def test_a_base_keeps_what_is_not_said_of_its_experts() -> None:
    model = architecture_from_mapping({"base": "deepseek-v3", "layers": 4, "experts": {"dense_layers": 0}})
    assert model.experts == Experts(256, 8, 2048, 2048, 0, 1, 8, 4, router_bias=True)
    assert model.routed_layers == 4


@pytest.mark.parametrize(
    "model",
    [
        SMALL,
        {"base": "deepseek-v3", "layers": 4, "mtp_layers": 1, "experts": {"dense_layers": 1}},
        "gpt-oss-20b",
    ],
)
def test_a_written_model_loads_to_an_equal_one(model: Any) -> None:
    scenario = step({"ep": 8}, {"dispatch": "fused"}, model=model).scenario
    assert loads(to_yaml(scenario)) == scenario


@pytest.mark.parametrize(
    ("experts", "field", "words"),
    [
        ({"count": 8, "top_k": 9, "ffn": 4}, "experts", "top_k 9 is above"),
        ({"count": 8, "top_k": 2}, "experts.ffn", "missing"),
        ({"count": 8, "top_k": 2, "ffn": 4, "fnn": 4}, "experts.fnn", "known are ffn"),
        ({"count": 8, "top_k": 2, "ffn": 4, "groups": 3}, "experts", "groups are equal"),
        ({"count": 8, "top_k": 2, "ffn": 4, "dense_layers": 4}, "experts", "none of the 4 layers"),
        ({"count": 8.5, "top_k": 2, "ffn": 4}, "experts.count", "not a whole number"),
    ],
)
def test_wrong_experts_are_told(experts: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        architecture_from_mapping({**SMALL, "experts": experts})
    assert any(where == field and words in problem for where, problem in caught.value.problems)


@given(st.integers(1, 64), st.integers(1, 16))
def test_copies_are_between_one_and_the_choices(places: int, top_k: int) -> None:
    found = Routing().copies(Experts(64, top_k, 1), places)
    assert 1.0 - 1e-9 <= found <= min(places, top_k) + 1e-9


def test_eight_choices_among_eight_ranks_meet_five_and_a_quarter() -> None:
    experts = Experts(256, 8, 2048, groups=8, group_limit=4)
    assert Routing(group_limited=False).copies(experts, 8) == pytest.approx(8 * (1 - (7 / 8) ** 8))
    assert Routing().copies(experts, 8) == pytest.approx(4 * (1 - (3 / 4) ** 8))


@pytest.mark.parametrize(
    "plan",
    [
        {"ep": 8},
        {"ep": 4, "pp": 2},
        {"ep": 2, "tp": 2},
        {"ep": 2, "pp": 2, "tp": 2, "schedule": "interleaved", "virtual_stages": 2},
        {"ep": 4, "pp": 2, "schedule": "zb-h1"},
        {"ep": 8, "data_sharding": "fsdp"},
        {"ep": 2, "cp": 2},
        {"ep": 8, "tp": 2, "etp": 1},
        {"ep": 2, "tp": 4, "etp": 2, "pp": 2},
        {"ep": 2, "tp": 1, "etp": 4},
        {"ep": 4, "tp": 2, "etp": 1, "data_sharding": "fsdp", "pp": 2, "reshard": True},
        {"ep": 4, "tp": 2, "etp": 2, "order": "tp-ep-cp-dp-pp", "data_sharding": "zero-2"},
    ],
)
def test_every_layout_computes_the_same(plan: dict[str, Any]) -> None:
    assert flops(step(plan)) == pytest.approx(flops(step()), rel=1e-9)


def test_model_flops_are_those_of_the_program_but_for_attention_backward() -> None:
    """A fused backward computes 2.5 times its forward where the model needs 2."""
    found = step()
    attention = sum(
        w.count * w.op.flops for t in found.program.tasks for w in t.work if isinstance(w.op, Attention)
    )
    attention *= found.scenario.gpus
    counted = found.family.workload.model_flops_per_token() * 64 * 4096
    assert flops(found) - attention / 7.0 == pytest.approx(counted, rel=1e-9)


def totals(works: tuple[Work, ...]) -> dict[str, float]:
    kernels = sum(w.count * w.op.kernels for w in works if isinstance(w.op, Launches))
    added = sum(w.count * w.op.parameters for w in works if isinstance(w.op, AccumulateGradients))
    sent = sum(w.count * w.op.wire_bytes for w in works if isinstance(w.op, Collective | TokenExchange))
    done = sum(w.count * w.op.flops for w in works)
    return {"kernels": kernels, "added": added, "sent": sent, "flops": done}


@pytest.mark.parametrize("model", [SMALL, {**SMALL, "mtp_layers": 1}, "llama-3.1-8b"])
@pytest.mark.parametrize("plan", [{}, {"tp": 2}])
def test_both_parts_of_a_backward_are_the_whole(model: Any, plan: dict[str, Any]) -> None:
    planner = step(plan, model=model)
    shard = Shard(planner.family.workload, planner.family.layout, Mesh(planner.family.layout, 8))
    parts: list[LayerWork] = [shard.layer(0), shard.layer(3), shard.head]
    for work in parts:
        whole, split = totals(work.backward), totals((*work.backward_input, *work.backward_weight))
        assert split == pytest.approx(whole)
        weights = totals(work.backward_weight)
        assert weights["added"] == pytest.approx(whole["added"])
        assert weights["sent"] == 0.0


def test_experts_are_reduced_among_those_that_hold_the_same() -> None:
    found = step({"ep": 4, "data_sharding": "ddp", "overlap": {"dp": False}})
    reduced = [w.op for t in found.program.tasks for w in t.work if isinstance(w.op, Collective)]
    sizes = {op.group.size: op.bytes for op in reduced}
    a = found.family.model
    experts = 3 * 16 / 4 * a.expert_parameters
    assert sizes == {2: pytest.approx(4.0 * experts), 8: pytest.approx(4.0 * (a.parameters - 4 * experts))}


def test_balance_stretches_rows_and_traffic() -> None:
    even, hot = step({"ep": 8}), step({"ep": 8}, {"balance_factor": 2.0})

    def total(found: Step, kind: type) -> float:
        works = [w for t in found.program.tasks for w in t.work if isinstance(w.op, kind)]
        return sum(w.count * (w.op.flops if kind is GroupedGemm else w.op.wire_bytes) for w in works)

    for kind in (GroupedGemm, TokenExchange):
        assert total(hot, kind) == pytest.approx(2.0 * total(even, kind))
    assert hot.result.step_time_s > even.result.step_time_s


def test_ways_to_the_experts_are_ordered() -> None:
    """Deduplication sends less; a fused kernel hides it; in fewer compute units it is slower."""
    seconds = {
        name: step({"ep": 8}, moe).result.step_time_s
        for name, moe in {
            "plain": {},
            "deduplicated": {"dispatch": "deduplicated"},
            "fused": {"dispatch": "fused"},
            "narrow": {"dispatch": "deduplicated", "dispatch_units": 16},
        }.items()
    }
    assert seconds["fused"] < seconds["deduplicated"] <= seconds["plain"]
    assert seconds["narrow"] > seconds["deduplicated"]


def test_one_hot_masks_cost_products_quadratic_in_the_sequence() -> None:
    """2·c·k·s·h per token and product: two forward, three backward."""
    moe = {"capacity_factor": 1.25}
    plain, masked = (flops(step({"ep": 8}, {**moe, "one_hot": hot})) for hot in (False, True))
    tokens, layers = 64 * 4096, 3
    assert masked - plain == pytest.approx(5 * 2 * 1.25 * 2 * 4096 * 512 * tokens * layers)


@pytest.mark.parametrize("tp", [2, 4])
def test_rows_of_unequal_ranks_are_gathered_one_broadcast_after_the_other(tp: int) -> None:
    """Without a capacity S crosses the bus instead of S·(n-1)/n: twice as long over the one link of a pair."""
    kinds = ({"broadcast", "reduce"}, {"all_gather", "reduce_scatter"})
    times, sent = [], []
    for moe, expected in zip(({}, {"capacity_factor": 1.0}), kinds, strict=True):
        found = step({"tp": tp}, moe, micro_batch=8)
        works = [w for t in found.program.tasks for w in t.work if w.cause == "expert_parallel"]
        assert {w.op.kind for w in works if isinstance(w.op, Collective)} == expected
        times.append(sum(w.count * op_seconds(w.op, found.cluster) for w in works))
        sent.append(sum(w.count * w.op.wire_bytes for w in works if isinstance(w.op, Collective)))
    assert sent[0] == pytest.approx(sent[1])
    assert times[0] / times[1] == pytest.approx(tp / (tp - 1), rel=0.05)


def test_norms_of_queries_and_keys_move_what_the_measured_kernels_do() -> None:
    """Split, two norms and rotary embedding of the micro-benchmark in validation/micro/streams.yaml."""
    workload = Workload(architecture("qwen3-30b-a3b"), 4096, "bf16")
    kind = workload.architecture.kind(0)
    tokens = 8 * 4096
    assert tokens * workload.forward_traffic(kind).heads == 1879048192
    assert tokens * workload.backward_traffic(kind).heads == 2181038080
    bare = Workload(architecture("mixtral-8x7b"), 4096, "bf16")
    assert bare.forward_traffic(kind).heads == 2 * 2 * (4096 + 1024)
    assert Workload(architecture("deepseek-v3"), 4096, "bf16").forward_traffic(kind).heads == 0.0


def test_legacy_products_weigh_rows_in_kernels_of_their_own() -> None:
    """4 more passes over k·T·f forward, 6 backward, in each of three layers."""
    moved = []
    for kind in ("loop", "legacy"):
        found = step({"ep": 8}, {"grouped_gemm": kind})
        works = [w for t in found.program.tasks for w in t.work if isinstance(w.op, Stream)]
        moved.append(sum(w.count * w.op.bytes for w in works))
    tokens = 64 / 8 * 4096
    assert moved[1] - moved[0] == pytest.approx(3 * (4 + 6) * 2 * tokens * 512 * 2.0)


def test_few_units_slow_a_dispatch_in_proportion() -> None:
    stack = catalog.stack("primus-2025-mi355x")
    assert stack.dispatch_share(0) == stack.dispatch_share(128) == 1.0
    assert stack.dispatch_share(32) == pytest.approx(32 / stack.dispatch_full_rate_units)


def test_a_fused_dispatch_costs_what_its_products_do_not_hide() -> None:
    cluster = Cluster(catalog.node("mi355x-8x400g"), 8, catalog.stack("primus-2026-mi355x"))
    group = Group("ep", 8, 8)
    exchange = TokenExchange(1e9, 4.0, 1.0, group, "experts")
    moved = op_seconds(exchange, cluster)
    for m in (64, 65536):
        experts = GroupedGemm(8, m, 4096, 4096, "bf16")
        works = (Work(exchange, "expert_parallel"), Work(experts, "gemm"))
        alone = op_seconds(experts, cluster)
        task = Task(0, 0, COMPUTE, "forward", "layer", 0, (0, 1), works)
        (priced,) = price(Program((task,), ({COMPUTE: (0,)},)), cluster)
        assert priced.seconds == pytest.approx(max(moved, alone))


def test_a_token_crosses_the_network_once_per_node() -> None:
    cluster = Cluster(catalog.node("mi355x-8x400g"), 32, catalog.stack("primus-2026-mi355x"))
    model = cluster.collectives
    near = model.seconds("all_to_all", 4e9, 8, 8)
    far = model.seconds("all_to_all", 2e9, 4, 1)
    assert token_exchange_s(model, 1e9, 4.0, 2.0, 32, 8) == max(near, far)
    assert token_exchange_s(model, 1e9, 8.0, 0.0, 32, 8) == model.seconds("all_to_all", 8e9, 32, 8)


def test_routers_see_the_tokens_of_their_own_tensor_parallel_rank() -> None:
    found = step({"tp": 2})
    routers = [w.op for t in found.program.tasks for w in t.work if isinstance(w.op, Gemm) and w.op.n == 16]
    assert {op.m for op in routers} == {2048}


def test_expert_memory_is_that_of_the_rank() -> None:
    """Experts of a rank are whole on it: 18 bytes each where no other rank holds them."""
    spread, whole = (step({"ep": ep}).result.memory[0].parts_bytes for ep in (8, 1))
    a = step().family.model
    experts = 3 * 16 * a.expert_parameters
    shared = whole["parameters"] / 2.0 - experts
    assert spread["parameters"] == pytest.approx(2.0 * (shared + experts / 8))
    assert spread["optimizer"] == pytest.approx(12.0 * (shared / 8 + experts / 8))


@pytest.mark.parametrize(
    ("moe", "overlap", "field"),
    [
        ({"dispatch": "deduplicated", "dispatch_units": 8}, {}, "training.moe.dispatch_units"),
        ({"static_buffer": True}, {}, "training.moe.static_buffer"),
        ({"group_limited": False}, {}, "training.moe.group_limited"),
        ({}, {"ep": True}, "parallelism.overlap.ep"),
    ],
)
def test_choices_about_a_way_that_no_token_takes_are_named(
    moe: dict[str, Any], overlap: dict[str, Any], field: str
) -> None:
    found = step({"overlap": overlap}, moe).scenario.warnings
    assert any(warning.startswith(f"{field}: has no effect") for warning in found)
    assert not any("has no effect" in warning for warning in step().scenario.warnings)


# -- expert tensor parallelism -----------------------------------------------------------------------


def expert_groups(found: Step) -> dict[str, tuple[int, int]]:
    """By axis (size, stride) of what exchanges tokens and rows."""
    return {
        w.op.group.axis: (w.op.group.size, w.op.group.stride)
        for t in found.program.tasks
        for w in t.work
        if w.cause == "expert_parallel" and isinstance(w.op, Collective | TokenExchange)
    }


def test_experts_follow_tensor_parallelism_unless_told() -> None:
    told, untold = step({"tp": 2, "ep": 4, "etp": 2}), step({"tp": 2, "ep": 4})
    assert told.result.step_time_s == untold.result.step_time_s
    assert expert_groups(untold) == {"ep": (4, 2), "tp": (2, 1)}


def test_whole_experts_spread_over_tensor_parallel_ranks() -> None:
    """With etp 1 the ranks of a tensor-parallel group hold experts of their own: no rows are gathered."""
    found = step({"tp": 2, "ep": 8, "etp": 1})
    assert expert_groups(found) == {"ep": (8, 1)}
    grouped = {w.op.groups for t in found.program.tasks for w in t.work if isinstance(w.op, GroupedGemm)}
    assert grouped == {2}
    products = {w.op.n for t in found.program.tasks for w in t.work if isinstance(w.op, GroupedGemm)}
    assert 512 in products  # the whole inner width
    assert found.family.layout.expert_dp == 1


def test_split_experts_gather_rows_over_their_own_group() -> None:
    """etp 4 beside tp 1: each rank brings the rows of its tokens, gathered over four, a quarter as wide."""
    found = step({"etp": 4, "ep": 2})
    assert expert_groups(found) == {"ep": (2, 4), "etp": (4, 1)}
    gathers = {
        w.op.bytes
        for t in found.program.tasks
        for w in t.work
        if isinstance(w.op, Collective) and w.op.group.axis == "etp"
    }
    assert gathers == {4096 * 4 * 2 * 512 * 2.0}  # tokens of four ranks, two choices, width, 16 bits


@pytest.mark.parametrize(
    "plan", [{"tp": 2, "ep": 4, "etp": 1}, {"tp": 2, "ep": 2, "etp": 4}, {"ep": 4, "etp": 2}]
)
def test_copies_of_experts_share_their_states(plan: dict[str, Any]) -> None:
    """edp = tp·cp·dp / (ep·etp) ranks hold the same part: gradients go over them, the optimizer is split by them."""
    found = step(plan)
    copies = 8 // (plan["ep"] * plan["etp"])
    assert found.family.layout.expert_dp == copies
    a, tp = found.family.model, plan.get("tp", 1)
    experts = 3 * 16 * a.expert_parameters / (plan["ep"] * plan["etp"])
    none = step({"tp": tp, "ep": 8 // tp}).result.memory[0].parts_bytes
    own = found.result.memory[0].parts_bytes
    shared = none["parameters"] / 2.0 - 3 * 16 * a.expert_parameters / 8
    assert own["parameters"] == pytest.approx(2.0 * (shared + experts))
    assert own["optimizer"] == pytest.approx(12.0 * (shared / (8 / tp) + experts / copies))


def test_rows_of_a_rank_and_its_activations_agree_with_the_split() -> None:
    """The same rows times width on every rank, however experts are split: activations hold as much of the inner
    width, and etp/tp times as many whole rows."""

    def kept(found: Step) -> dict[str, float]:
        family = found.family
        request = MemoryRequest(sequence_length=4096)
        facts = MemoryFacts.from_mapping(1e12, family.cluster.stack.memory)
        return saved_by_op(family.model, family.layout, request, facts, routed=True)

    one, two = kept(step({"tp": 2, "ep": 4})), kept(step({"tp": 2, "ep": 8, "etp": 1}))
    assert two["expert activation"] == pytest.approx(one["expert activation"])
    assert two["expert rows"] == pytest.approx(one["expert rows"] / 2)


def test_frozen_experts_have_no_weight_gradients() -> None:
    """Adapters lie on attention: experts run forward and input gradients, two of three products, and keep what
    their activation function needs."""

    def run(*more: str) -> Step:
        return Step(small("model=mixtral-8x7b", "training.global_batch=8", "parallelism.ep=8", *more))

    trained, frozen = run(), run("training.lora={rank: 16}", "parallelism.data_sharding=ddp")

    def expert_flops(found: Step) -> float:
        works = [w for t in found.program.tasks for w in t.work if isinstance(w.op, GroupedGemm)]
        return sum(w.count * w.op.flops for w in works)

    assert expert_flops(frozen) == pytest.approx(expert_flops(trained) * 2 / 3)
    assert frozen.result.step_time_s < trained.result.step_time_s
    parts, whole = frozen.result.worst_memory.parts_bytes, trained.result.worst_memory.parts_bytes
    assert parts["gradients"] < 0.01 * whole["gradients"]
    assert parts["activations"] < whole["activations"]
    eight_bit = run("training.lora={rank: 16}", "parallelism.data_sharding=ddp", "training.precision=fp8")
    assert eight_bit.result.worst_memory.parts_bytes["parameters"] == pytest.approx(
        parts["parameters"] / 2, rel=0.06
    )

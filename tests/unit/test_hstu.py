"""Sequence recommenders: what deduplication, lengths and balance change, and where the time goes."""

from __future__ import annotations

import math

import pytest

from sim.ops import Attention, Collective, Gemm
from sim.parallel.recommender_memory import BETWEEN, EXCHANGE, LAYERS
from sim.scenario import Scenario, ScenarioError, loads
from sim.step import Step, simulate
from sim.workload.catalog import recommender
from sim.workload.recommender_workload import Lengths, RecommenderWorkload

HSTU = """\
schema: 1
name: hstu
model: dlrmv4-hstu
cluster: {node: mi350x-8x400g, nodes: 1, stack: torchrec-2026-mi350x}
training:
  sequence_length: 2627
  global_batch: 8192
  precision: bf16
  embeddings: {optimizer: rowwise-adagrad, distinct: 0.015}
parallelism: {tables: {sharding: row}}
"""


def hstu(*changes: str) -> Scenario:
    return loads(HSTU, overrides=changes)


def exchanged(step: Step) -> float:
    ops = (w.op for task in step.program.tasks for w in task.work)
    return sum(op.bytes for op in ops if isinstance(op, Collective) and op.kind == "all_to_all")


def test_sequences_exchange_a_vector_per_feature_and_position() -> None:
    """Three features of 512 at 2 bytes, 2.69 M positions per rank: 8.3 GB each way, as the source says."""
    sent = 3 * 512 * 2 * 1024 * 2627
    ids = 3 * 8 * 1024 * 2627
    assert exchanged(Step(hstu())) == pytest.approx(2 * sent + ids, rel=0.01)
    assert sent == pytest.approx(8.3e9, rel=0.01)


def test_deduplication_leaves_distinct_rows() -> None:
    plain, once = Step(hstu()), Step(hstu("training.embeddings.deduplicate=true"))
    assert exchanged(once) / exchanged(plain) == pytest.approx(
        0.015 + 0.008, rel=0.05
    )  # partial sums of 8 tables stay
    gained = plain.result.step_time_s - once.result.step_time_s
    assert 0.087 < gained < 0.136  # measured: 136 ms, of which exchange, lookups and reordering explain 87


def test_flops_count_projections_content_and_causal_attention() -> None:
    """315.7 GFLOP per sample at 4,096 positions, of which attention 180.4, says MLCommons; the content MLP apart."""
    model = recommender("dlrmv4-hstu")
    workload = RecommenderWorkload(model, "bf16", Lengths(4096.0))
    content = 6.0 * 4096 * sum(i * o for i, o in model.content_layers)
    assert workload.flops_per_sample() - content == pytest.approx(315.7e9, rel=0.001)


def test_the_program_computes_the_models_flops() -> None:
    step = Step(hstu())
    found = sum(
        w.count * w.op.flops for t in step.program.tasks for w in t.work if isinstance(w.op, Gemm | Attention)
    )
    family = step.family
    assert found == pytest.approx(family.model_flops("megatron") / 8, rel=1e-6)


@pytest.mark.parametrize("variation", [0.2, 0.5])
def test_jagged_lengths_cost_their_squares_in_attention(variation: float) -> None:
    even, jagged = (
        simulate(hstu(f"training.lengths={{variation: {v}}}")).breakdown_s["attention"]
        for v in (0.0, variation)
    )
    assert jagged / even == pytest.approx(1 + variation**2)


def test_balancing_pays_and_its_gain_grows_with_the_ranks() -> None:
    def gain(nodes: int) -> float:
        changes = (f"cluster.nodes={nodes}", f"training.global_batch={256 * nodes}")
        dealt, taken = (
            simulate(hstu(*changes, f"training.lengths={{variation: 0.6, balanced: {b}}}")).step_time_s
            for b in ("true", "false")
        )
        return taken / dealt

    assert 1.0 < gain(1) < gain(8)


def test_the_busiest_of_many_ranks_follows_extreme_values() -> None:
    lengths = Lengths(100.0, 0.5, balanced=False)
    assert lengths.hottest(64.0, 8) == pytest.approx(1 + 0.5 * math.sqrt(2 * math.log(8)) / 8)
    assert Lengths(100.0, 0.5).hottest(64.0, 8) == 1.0
    assert lengths.hottest(64.0, 1) == 1.0


def test_a_hot_row_overloads_its_owner_and_columns_do_not() -> None:
    skewed = (
        "training.embeddings.skew=1.1",
        "training.embeddings.distinct=null",
        "cluster.nodes=4",
        "training.global_batch=32768",
    )
    rows = Step(hstu(*skewed))
    columns = Step(hstu(*skewed, "parallelism.tables.sharding=column"))
    most = {s: s.family._memory.moments[EXCHANGE]["exchange_buffers"] for s in (rows, columns)}
    assert most[rows] > 1.5 * most[columns]
    assert rows.result.step_time_s > columns.result.step_time_s


def test_memory_is_rows_buffers_and_activations() -> None:
    """600 GB of rows over eight GPUs; they do not fit eight GPUs of 80 GB."""
    parts = simulate(hstu()).worst_memory.parts_bytes
    assert parts["table_rows"] == pytest.approx(600.2e9 / 8, rel=1e-3)
    assert parts["table_state"] == pytest.approx(293_051_712 * 4 / 8, rel=1e-3)
    small = hstu("cluster.node=h100-8x400g", "cluster.stack=recsys-2026-h100")
    with pytest.raises(ValueError, match="there is room for"):
        simulate(small)


def test_memory_over_time_peaks_where_memory_says() -> None:
    result = simulate(hstu())
    series = result.memory_over_time()
    assert max(row.allocated_bytes for row in series) == pytest.approx(result.worst_memory.allocated_bytes)
    assert min(row.allocated_bytes for row in series) == pytest.approx(series[0].lasting_bytes)
    assert {row.moment for row in series} == {EXCHANGE, LAYERS, BETWEEN}


def test_ids_are_hidden_where_the_pipeline_runs_ahead() -> None:
    exposed, ahead = (simulate(hstu(f"parallelism.tables.pipelined_ids={p}")) for p in ("false", "true"))
    assert ahead.step_time_s < exposed.step_time_s


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("parallelism.tables.sharding=two-level", "not several whole scale-up domains"),
        ("training.lengths={balanced: false}", "all sequences are equally long"),
    ],
)
def test_what_sequences_cannot_have_is_refused(change: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        hstu(change)


def test_sequences_need_a_length() -> None:
    with pytest.raises(ScenarioError, match="sequence_length: is missing"):
        loads(HSTU.replace("  sequence_length: 2627\n", ""))


@pytest.mark.parametrize("name", ["qwen3-next-80b-a3b", "kimi-linear-48b", "mamba2-2.7b", "minimax-text-01"])
def test_hybrid_linear_attention_is_refused_by_name(name: str) -> None:
    with pytest.raises(ScenarioError, match="linear attention beside softmax attention are not modelled yet"):
        hstu(f"model={name}")


def test_diffusion_transformers_are_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match="diffusion transformers are not modelled yet"):
        hstu("model=flux.1-schnell")


def test_an_assumed_host_bus_is_said() -> None:
    from fakes.recommenders import dlrm

    box = ("cluster.node=l40-8x", "cluster.stack=hugectr-2023-pcie", "parallelism.tables.room=45 GB")
    plain, known = dlrm(*box), dlrm(*box, "cluster.scale_up={usable_bandwidth: 20 GB/s}")
    assert any("over the host bus is assumed" in warning for warning in plain.warnings)
    assert not any("host bus" in warning for warning in known.warnings)
    assert simulate(known).step_time_s < simulate(plain).step_time_s

"""A step of a recommender: bytes and FLOPs against closed forms, and what each knob does."""

from __future__ import annotations

import pytest
from fakes.recommenders import dlrm

from hwmodels import catalog
from sim.ops import Collective, EmbeddingLookup, EmbeddingUpdate, Gemm, HostCopy, Op
from sim.scenario import ScenarioError
from sim.step import Step, simulate
from sim.workload.catalog import recommender

B, N, D = 55296, 8, 128


def ops(step: Step, kind: type[Op]) -> list[Op]:
    return [work.op for task in step.program.tasks for work in task.work if isinstance(work.op, kind)]


def test_published_sizes_come_out() -> None:
    dcn, hstu = recommender("dlrm-dcnv2"), recommender("dlrmv4-hstu")
    assert dcn.table_parameters == 204_184_588 * 128
    assert sum(t.lookups for t in dcn.tables) == 214
    assert dcn.dense_parameters == pytest.approx(16.1e6, rel=0.005)
    assert hstu.table_parameters == 293_051_712 * 512
    assert recommender("dlrm-onehot").table_parameters * 4 == pytest.approx(91.1e9, rel=1e-3)


def test_bytes_of_the_busiest_rank_follow_the_closed_form() -> None:
    """B·L·4d + B·S·2d forward; B·L·(2d/2 + 64) + B·L·u·16d back; the exchange B·S·2d, twice."""
    step = Step(dlrm())
    (lookup,) = ops(step, EmbeddingLookup)
    (update,) = ops(step, EmbeddingUpdate)
    assert isinstance(lookup, EmbeddingLookup)
    assert isinstance(update, EmbeddingUpdate)
    assert sum(r.bytes for r in lookup.rows) == pytest.approx(B * 29 * 4 * D)
    assert update.lookups == pytest.approx(B * 29)
    assert update.gradient_bytes == pytest.approx(2 * D)
    assert update.distinct * update.update_bytes <= B * 29 * 0.4 * 16 * D
    exchanges = [op for op in ops(step, Collective) if op.kind == "all_to_all" and op.bytes == B * 5 * 2 * D]  # type: ignore[union-attr]
    assert len(exchanges) == 2


def test_flops_are_those_of_the_model() -> None:
    """3 x 2 per weight and sample, less the gradient of the bottom's input, which nobody wants."""
    step = Step(dlrm())
    found = sum(op.flops for op in ops(step, Gemm))
    model = recommender("dlrm-dcnv2")
    weights = sum(i * o for i, o in (*model.bottom_layers, *model.cross_matrices, *model.top_layers))
    first = model.bottom_layers[0]
    assert found == pytest.approx((6 * weights - 2 * first[0] * first[1]) * B / N)


@pytest.mark.parametrize(
    ("changes", "faster"),
    [
        (("parallelism.tables.replicate_below=8 MB",), True),
        (("training.embeddings.distinct=0.8",), False),
        (("training.embeddings.distinct=0.1",), True),
        (("training.embeddings.exchange_dtype=fp32",), False),
        (("training.embeddings.optimizer=sgd",), True),
        (("parallelism.tables.pipelined_ids=false",), False),
        (("parallelism.tables.sharding=row",), False),
        (("cluster.scale_up={usable_bandwidth: 100 GB/s}",), False),
        (("training.input={bytes_per_sample: 912 B, host_bandwidth: 5 GB/s}",), False),
        (("parallelism.tables.host_tables=[t20]", "parallelism.tables.host_bandwidth=50 GB/s"), False),
    ],
)
def test_each_knob_moves_the_step_the_right_way(changes: tuple[str, ...], faster: bool) -> None:
    before, after = simulate(dlrm()).step_time_s, simulate(dlrm(*changes)).step_time_s
    assert after < before if faster else after > before


def test_a_host_limited_step_takes_as_long_as_its_input() -> None:
    slow = dlrm("training.input={bytes_per_sample: 912 B, host_bandwidth: 5 GB/s}")
    assert simulate(slow).step_time_s == pytest.approx(B * 912 / 5e9, rel=1e-6)


def test_host_tables_cross_the_link_both_ways() -> None:
    changes = ("parallelism.tables.host_tables=[t20]", "parallelism.tables.host_bandwidth=50 GB/s")
    step = Step(dlrm(*changes, "parallelism.tables.sharding=table"))
    sizes = [op.bytes for op in ops(step, HostCopy) if isinstance(op, HostCopy)]
    assert sizes == [B * 100 * 4 * D] * 2


def test_tables_in_host_memory_take_no_room() -> None:
    small = ("parallelism.tables.room=30 GB", "parallelism.tables.host_bandwidth=50 GB/s")
    tables = "parallelism.tables.host_tables=[t0, t9, t19, t20, t21]"
    held = simulate(dlrm(*small, tables)).worst_memory.parts_bytes["table_rows"]
    assert held == pytest.approx(3_067_956 * 512, rel=0.01)  # t10, the largest that stays


def test_two_levels_exchange_inside_and_across() -> None:
    two = (
        "cluster.node=dgx-h100",
        "cluster.nodes=8",
        "training.global_batch=135168",
        "parallelism.tables.sharding=two-level",
    )
    step = Step(dlrm(*two))
    kinds = [(op.kind, op.group.size) for op in ops(step, Collective) if op.group.size < 64]  # type: ignore[union-attr]
    assert sorted(set(kinds)) == [("all_gather", 8), ("all_to_all", 8), ("reduce_scatter", 8)]
    words = step.family.layout_in_words()
    assert words["lookups_of_the_hottest"] == pytest.approx(51 / 8)


def test_memory_of_the_fullest_rank() -> None:
    """Rows and element-wise Adagrad state: the same again; row-wise: 4 bytes per row."""
    parts = simulate(dlrm()).worst_memory.parts_bytes
    assert parts["table_rows"] == parts["table_state"] < 30e9
    rowwise = simulate(
        dlrm("training.embeddings.optimizer=rowwise-adagrad", "parallelism.tables.sharding=row")
    )
    assert rowwise.worst_memory.parts_bytes["table_rows"] == pytest.approx(104.5e9 / 8, rel=1e-3)
    assert rowwise.worst_memory.parts_bytes["table_state"] == pytest.approx(204_184_588 * 4 / 8, rel=1e-3)


def test_what_does_not_fit_says_so() -> None:
    with pytest.raises(ValueError, match=r"parallelism.tables: .*GB.*use more GPUs"):
        simulate(dlrm("cluster.gpus=1"))


def test_samples_are_counted() -> None:
    result = simulate(dlrm())
    assert result.counted == "samples"
    assert result.tokens_per_step == B
    assert result.range_90 is None or result.range_90.low_s < result.step_time_s


def test_one_gpu_exchanges_nothing() -> None:
    one = dlrm("cluster.node=h200-8x400g", "cluster.stack=hugectr-2024-h200", "cluster.gpus=1", "parallelism.tables.room=130 GB",
               "training.embeddings.optimizer=sgd", "training.global_batch=6912")  # fmt: skip
    result = simulate(one)
    assert "embedding_exchange" not in result.breakdown_s
    assert result.worst_memory.parts_bytes["table_rows"] == pytest.approx(104.5e9, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ("parallelism.tp=2", "parallelism.tp", "is a recommender"),
        ("training.micro_batch=2", "training.micro_batch", "is a recommender"),
        ("training.sequence_length=4", "training.sequence_length", "has no sequences"),
        ("training.lengths={variation: 0.5}", "training.lengths", "has no sequences"),
        ("training.global_batch=55297", "training.global_batch", "must be a multiple of 8 GPUs"),
        ("training.precision=fp8", "training.precision", "not modelled yet"),
        ("training.embeddings.skew=1", "training.embeddings.skew", "keep one of the two"),
        ("training.embeddings.deduplicate=true", "training.embeddings.deduplicate", "not modelled yet"),
        ("parallelism.tables.pieces=2", "parallelism.tables.pieces", "choose column"),
        ("parallelism.tables={sharding: column, pieces: 3}", "parallelism.tables.pieces", "must divide"),
        ("parallelism.tables.sharding=two-level", "parallelism.tables.sharding", "not several whole"),
        (
            "parallelism.tables={sharding: row, exchange_cost: 2}",
            "parallelism.tables.exchange_cost",
            "no effect",
        ),
        ("parallelism.tables.host_tables=[t99]", "parallelism.tables.host_tables", "is no table"),
        ("parallelism.tables.host_bandwidth=50 GB/s", "parallelism.tables.host_bandwidth", "no effect"),
        ("cluster.stack=nemo-2025-h100", "cluster.stack", "has no embedding figures"),
        ("metrics.mfu_convention=palm", "metrics.mfu_convention", "no effect"),
    ],
)
def test_what_means_nothing_is_refused(change: str, field: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        dlrm(change)
    assert any(field in error and message in error for error in refused.value.errors)


@pytest.mark.parametrize(
    "change", ["training.embeddings={distinct: 0.4}", "training.lengths={variation: 0.1}", "parallelism.tables={sharding: row}"]
)  # fmt: skip
def test_transformers_have_no_tables(change: str) -> None:
    from fakes.scenarios import small

    with pytest.raises(ScenarioError, match="is no recommender"):
        small(change)


def test_the_default_stack_is_one_of_the_family() -> None:
    assert catalog.newest_stack("h100-sxm", recommenders=True).embedding
    assert not catalog.newest_stack("h100-sxm").embedding


def test_a_transformer_still_needs_its_sequence_length() -> None:
    from fakes.scenarios import SMALL

    from sim.scenario import loads

    with pytest.raises(ScenarioError, match=r"training\.sequence_length: is missing"):
        loads(SMALL.replace("sequence_length: 2048, ", ""))


def test_everything_is_monotone_in_the_batch() -> None:
    steps = [simulate(dlrm(f"training.global_batch={b}")).step_time_s for b in (8192, 16384, 55296, 110592)]
    assert steps == sorted(steps)


def test_megatron_cannot_train_them() -> None:
    from sim.interop.configs.exporter import NotExportable, export_megatron

    with pytest.raises(NotExportable, match="is a recommender: Megatron-LM trains transformers"):
        export_megatron(dlrm())

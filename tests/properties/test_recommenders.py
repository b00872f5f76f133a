"""Recommenders: what must hold for any plan, machine and ids."""

from __future__ import annotations

import pytest
from fakes.recommenders import dlrm
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.ops import Collective, EmbeddingLookup, EmbeddingUpdate
from sim.parallel.table_pieces import vector_width
from sim.step import Step, simulate

SHARDINGS = ("planned", "row", "column")
shardings = st.sampled_from(SHARDINGS)
batches = st.integers(1, 64).map(lambda n: n * 1024)


@settings(max_examples=15, deadline=None)
@given(shardings, batches, st.sampled_from((2, 4, 8)))
def test_vectors_sent_are_those_of_the_plan_and_no_rank_sends_more(
    sharding: str, batch: int, gpus: int
) -> None:
    step = Step(dlrm(f"parallelism.tables.sharding={sharding}", f"training.global_batch={batch}", f"cluster.gpus={gpus}",
                     "parallelism.tables.room=200 GB", "training.embeddings.optimizer=sgd"))  # fmt: skip
    plan = step.family.plan  # type: ignore[attr-defined]
    ops = (w.op for task in step.program.tasks for w in task.work)
    sent = [op.bytes for op in ops if isinstance(op, Collective) and op.kind == "all_to_all"]
    widths = [vector_width(bucket) for bucket in plan.buckets]
    assert sorted(sent)[-2:] == [pytest.approx(batch * max(widths) * 2.0)] * 2
    assert sum(widths) >= 26 * 128  # every table's vector arrives, whole or as partial sums


@settings(max_examples=15, deadline=None)
@given(
    shardings, st.floats(1.0, 8.0), st.sampled_from(("hbm_bandwidth=3.35 TB/s", "usable_bandwidth=362 GB/s"))
)
def test_a_better_machine_is_not_slower(sharding: str, factor: float, figure: str) -> None:
    cost = ("parallelism.tables.exchange_cost=1.75",) if sharding == "planned" else ()
    name, _, rate = figure.partition("=")
    value, unit = rate.split()
    section = "gpu" if name.startswith("hbm") else "scale_up"
    better = f"cluster.{section}={{{name}: {float(value) * factor:.6g} {unit}}}"
    same = f"cluster.{section}={{{name}: {rate}}}"
    plan = (f"parallelism.tables.sharding={sharding}", *cost, "parallelism.tables.room=60 GB")
    assert simulate(dlrm(*plan, better)).step_time_s <= simulate(dlrm(*plan, same)).step_time_s * (1 + 1e-12)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.0, 1.4), st.floats(0.05, 0.4))
def test_more_skew_means_fewer_rows_to_update_and_a_busier_owner(skew: float, more: float) -> None:
    def work(value: float) -> tuple[float, float]:
        step = Step(
            dlrm(
                "training.embeddings.distinct=null",
                f"training.embeddings.skew={value}",
                "parallelism.tables.sharding=row",
            )
        )
        ops = [w.op for task in step.program.tasks for w in task.work]
        lookups = next(sum(r.lookups for r in op.rows) for op in ops if isinstance(op, EmbeddingLookup))
        update = next(op for op in ops if isinstance(op, EmbeddingUpdate))
        return lookups, update.distinct / update.lookups

    even, hot = work(skew), work(skew + more)
    assert hot[0] >= even[0] * (1 - 1e-6)
    assert hot[1] <= even[1] * (1 + 1e-3)

"""Buckets of gradients: how many collectives, when they start, and what does not depend on them."""

from __future__ import annotations

import math

import pytest
from fakes.scenarios import changes, small
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.ops import Collective
from sim.parallel.buckets import Buckets
from sim.program import COLLECTIVE, Program, Task
from sim.step import Step


def step(plan: str, *more: str) -> Step:
    return Step(small(*changes(plan), *more))


def exchanges(program: Program, kind: str, role: int = 0) -> list[Task]:
    found = [program.tasks[i] for i in program.order[role].get(COLLECTIVE, ())]
    return [task for task in found if task.kind == kind]


def sent(program: Program) -> float:
    return math.fsum(
        w.count * w.op.wire_bytes for t in program.tasks for w in t.work if isinstance(w.op, Collective)
    )


def test_a_bucket_per_layer_is_the_default() -> None:
    assert step("").result.step_time_s == step("bucket=layer").result.step_time_s


@settings(deadline=None, max_examples=40)
@given(
    size=st.integers(1000, 10**9),
    plan=st.sampled_from(("", "data_sharding=ddp", "data_sharding=zero-2", "pp=2", "pp=2 schedule=zbv")),
)
def test_buckets_move_the_same_bytes(size: int, plan: str) -> None:
    base, other = step(plan), step(plan, f"parallelism.bucket_parameters={size}")
    assert sent(other.program) == pytest.approx(sent(base.program), rel=1e-12)


def test_layers_are_collected_until_a_bucket_is_full() -> None:
    """11.8 M parameters a layer, 32.8 M in embedding and head: 20 M are two layers, 100 M all but the embedding."""
    twenty = exchanges(step("bucket_parameters=20000000").program, "reduce")
    assert [t.name for t in twenty] == [
        "reduce head", "reduce layer 3 to layer 2", "reduce layer 1 to layer 0", "reduce embedding",
    ]  # fmt: skip
    hundred = exchanges(step("bucket_parameters=100000000").program, "reduce")
    assert [t.name for t in hundred] == ["reduce head to embedding"]


def test_a_large_layer_fills_several_buckets() -> None:
    task = exchanges(step("bucket_parameters=5000000").program, "reduce")[1]
    (work,) = task.work
    model = step("").family.model
    assert task.name == "reduce layer 3"
    assert work.count == model.layer_parameters // 5e6 == 2
    assert isinstance(work.op, Collective)
    assert work.op.bytes == 4.0 * model.layer_parameters / 2


def test_bytes_and_parameters_say_the_same() -> None:
    assert (
        step("", "parallelism.bucket_size=80 MB").result.step_time_s
        == step("bucket_parameters=20000000").result.step_time_s
    )
    assert (
        step("training.gradient_dtype=bf16", "parallelism.bucket_size=40 MB").result.step_time_s
        == step("training.gradient_dtype=bf16 bucket_parameters=20000000").result.step_time_s
    )


def test_reductions_start_when_their_bucket_is_complete() -> None:
    program = step("bucket_parameters=20000000").program
    for task in exchanges(program, "reduce"):
        last = task.name.removeprefix("reduce ").split(" to ")[-1]
        assert [program.tasks[i].name for i in task.waits] == [f"backward {last}"]
    whole = exchanges(step("bucket_parameters=1000000000").program, "reduce")
    assert [t.window for t in whole] == [None]  # nothing is left to run beside it


def test_updated_parameters_arrive_bucket_by_bucket() -> None:
    program = step("bucket_parameters=20000000").program
    assert [t.name for t in exchanges(program, "gather")] == [
        "gather embedding", "gather layer 1 to layer 0", "gather layer 3 to layer 2", "gather head",
    ]  # fmt: skip
    first = {t.name: t for t in program.tasks if t.microbatch == 0 and t.kind == "forward"}
    for name in ("layer 0", "layer 1"):
        assert [program.tasks[i].name for i in first[f"forward {name}"].waits] == [
            "gather layer 1 to layer 0"
        ]


def test_few_large_buckets_show_and_many_small_ones_wait() -> None:
    """One bucket has nothing to hide under; thousands pay a latency each."""
    times = [
        step(f"cluster.nodes=2 bucket_parameters={size}").result.step_time_s
        for size in (1000, 12_000_000, 10**9)
    ]
    assert times[1] < times[0]
    assert times[1] < times[2]


def test_megatrons_rule() -> None:
    """max(40 M, dp million) parameters; later stages and parts are one bucket each."""
    assert Buckets.megatron(8) == Buckets(40e6, first_part_only=True)
    assert Buckets.megatron(128) == Buckets(128e6, first_part_only=True)
    program = step("pp=2 bucket=megatron model.layers=16").program
    assert len(exchanges(program, "reduce", 0)) == 3  # four layers fill 40 M: twice, and the embedding alone
    assert [t.name for t in exchanges(program, "reduce", 1)] == ["reduce head to layer 8"]


def test_a_bucket_of_several_layers_is_held_before_zero_2_reduces_it() -> None:
    parts = [
        step(f"data_sharding=zero-2 training.micro_batch=4 {bucket}")
        .family.memory[0]
        .parts_bytes["gradient_reduction"]
        for bucket in ("", "bucket_parameters=1000", "bucket_parameters=30000000")
    ]
    model = step("").family.model
    assert parts[0] == parts[1]
    assert parts[2] - parts[0] == pytest.approx(4.0 * (30e6 - model.layer_parameters), rel=1e-3)

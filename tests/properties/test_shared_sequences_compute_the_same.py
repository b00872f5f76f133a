"""However a step is laid out over GPUs, all of them together do the same work."""

from __future__ import annotations

import math

import pytest
from fakes.scenarios import small
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.parallel.context import METHODS
from sim.scenario import ScenarioError
from sim.step import Step

MODEL = "model={name: small, layers: 8, hidden: 1024, ffn: 2816, heads: 16, kv_heads: 8, vocab: 32000}"
DEGREES = st.sampled_from([1, 2, 4, 8])
SCHEDULES = (
    "1f1b",
    "gpipe",
    "interleaved",
    "zb-h1",
    "zb-h2",
    "zbv",
    "v-half",
    "v-min",
    "dualpipe",
    "dualpipe-v",
)


def flops(step: Step) -> float:
    """Of all ranks: each role stands for the ranks of its stage."""
    one = math.fsum(w.count * w.op.flops for task in step.program.tasks for w in task.work)
    return one * step.scenario.gpus / step.family.layout.pp


@pytest.fixture(scope="module")
def whole() -> float:
    return flops(Step(small(MODEL, "cluster.gpus=1", "training.global_batch=64")))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, ...]:
    pp, cp, tp = draw(DEGREES), draw(DEGREES), draw(DEGREES)
    plan = [f"tp={tp}", f"pp={pp}", f"cp={cp}"]
    if cp > 1:
        plan.append(f"cp_method={draw(st.sampled_from(METHODS))}")
    if pp > 1:
        schedule = draw(st.sampled_from(SCHEDULES))
        plan.append(f"schedule={schedule}")
        if schedule == "interleaved":
            plan.append(f"virtual_stages={draw(st.sampled_from([2, 4]))}")
    sharding = draw(st.sampled_from(["ddp", "zero-1", "zero-2", "fsdp"]))
    plan.append(f"data_sharding={sharding}")
    if sharding == "fsdp":
        plan.append(f"hsdp_replicas={draw(st.sampled_from([1, 2]))}")
    return (
        MODEL,
        "cluster.nodes=2",
        "training.global_batch=64",
        f"training.micro_batch={draw(st.sampled_from([1, 2]))}",
        *(f"parallelism.{word}" for word in plan),
    )


@settings(deadline=None, max_examples=150)
@given(changes=layouts())
def test_every_legal_layout_does_the_same_work(changes: tuple[str, ...], whole: float) -> None:
    try:
        scenario = small(*changes)
    except ScenarioError:
        assume(False)
        raise
    assert flops(Step(scenario)) == pytest.approx(whole, rel=1e-12)

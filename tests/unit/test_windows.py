"""Compute and collectives side by side: slowed, and on one stream by turns."""

from __future__ import annotations

import pytest
from fakes.scenarios import changes, small
from hypothesis import given
from hypothesis import strategies as st

from sim.ops import TokenExchange
from sim.pricing import price
from sim.program import COLLECTIVE, COMPUTE
from sim.scenario import ScenarioError
from sim.step import Step
from sim.windows import Window, stretch

seconds = st.floats(0.0, 10.0)
slowdowns = st.floats(1.0, 3.0)


def end(window: Window, slowdown: float) -> float:
    """When compute and collectives of a window are through."""
    compute = (window.compute_s - window.exposed_s) * window.factor(slowdown) + window.exposed_s
    return max(compute, window.beside_s + window.delay_s(slowdown))


@given(seconds, seconds, slowdowns)
def test_without_collectives_inside_there_are_no_turns(
    compute: float, beside: float, slowdown: float
) -> None:
    window = Window(compute, beside)
    assert window.delay_s(slowdown) == 0.0
    assert window.factor(slowdown) == stretch(beside, compute, slowdown)


@given(seconds, seconds, seconds)
def test_compute_hides_the_gather_only(compute: float, beside: float, exposed: float) -> None:
    """Without slowing: the all-to-all, and beside it the longer of compute and gather."""
    window = Window(compute + exposed, beside, exposed)
    assert end(window, 1.0) == pytest.approx(exposed + max(compute, beside))


@given(seconds, seconds, seconds, slowdowns, st.floats(0.1, 1.0))
def test_a_faster_link_never_ends_later(
    compute: float, beside: float, exposed: float, slowdown: float, factor: float
) -> None:
    before = Window(compute + exposed, beside, exposed)
    after = Window(compute + exposed * factor, beside * factor, exposed * factor)
    assert end(after, slowdown) <= end(before, slowdown) * (1.0 + 1e-9) + 1e-12


@given(seconds, seconds, st.floats(0.0, 1.0), slowdowns)
def test_a_hidden_exchange_takes_its_turns_too(
    compute: float, beside: float, share: float, slowdown: float
) -> None:
    window = Window(compute, beside, hidden_s=share * compute)
    assert 0.0 <= window.delay_s(slowdown) <= share * compute + 1e-12


def step(plan: str) -> Step:
    return Step(small(*changes(plan)))


@pytest.mark.parametrize(
    "plan", ["data_sharding=fsdp tp=2", "data_sharding=fsdp tp=2 pp=2 reshard=true", "tp=2"]
)
def test_turns_cost_time_but_no_more_than_what_takes_them(plan: str) -> None:
    both, turns = step(plan), step(f"{plan} overlap.one_stream=true")
    inside = sum(
        part.seconds
        for task, priced in zip(both.program.tasks, both.prices, strict=True)
        if task.stream == COMPUTE
        for part in priced.parts
        if part.cause == "tensor_parallel"
    )
    assert both.result.step_time_s < turns.result.step_time_s <= both.result.step_time_s + inside


def test_a_delayed_gather_carries_no_more_bytes() -> None:
    both, turns = step("data_sharding=fsdp tp=2"), step("data_sharding=fsdp tp=2 overlap.one_stream=true")

    def bytes_(found: Step) -> float:
        pairs = zip(found.program.tasks, found.prices, strict=True)
        return sum(p.bytes for t, priced in pairs if t.stream == COLLECTIVE for p in priced.parts)

    assert bytes_(both) == pytest.approx(bytes_(turns))
    for priced in turns.prices:
        assert priced.seconds == pytest.approx(sum(part.seconds for part in priced.parts))


def test_turns_that_nobody_takes_are_named() -> None:
    assert any("one_stream" in w for w in small("parallelism.overlap.one_stream=true").warnings)
    assert not small("parallelism.overlap.one_stream=true", "parallelism.tp=2").warnings


MOE = ("model=mixtral-8x7b", "parallelism.ep=8", "cluster.nodes=2", "training.global_batch=32")


def routed(units: int | None) -> Step:
    said = "" if units is None else f", dispatch_units: {units}"
    moe = f"training.moe={{dispatch: deduplicated{said}}}"
    return Step(small(*MOE, moe, "parallelism.overlap.ep=true"))


def test_an_overlapped_dispatch_takes_its_units_from_compute() -> None:
    """At the full rate of 64 units and beyond the exchange is as fast; compute lacks what it takes."""
    few, many = routed(64), routed(152)
    ops = [w.op for t in few.program.tasks for w in t.work if isinstance(w.op, TokenExchange)]
    assert {op.units for op in ops} == {64}

    def interference(found: Step) -> float:
        prices = price(found.program, found.cluster)
        return sum(p.seconds for priced in prices for p in priced.parts if p.cause == "interference")

    assert interference(few) < interference(many)
    assert few.result.step_time_s < many.result.step_time_s


def test_a_dispatch_has_no_more_units_than_the_gpu() -> None:
    with pytest.raises(ScenarioError, match="the GPU has 304 compute units"):
        routed(304)

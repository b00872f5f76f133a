"""Traffic of one rank meets on its NIC: the step with contention against the one without."""

from __future__ import annotations

import math

import pytest

import sim
from hwmodels.sharing import fair_progress
from sim.engine.events import run
from sim.program import COLLECTIVE, SEND
from sim.step import Step
from sim.transfers import flows

BASE = "scenarios/llama3.1-405b_16384xmi300x.yaml"
SMALL = ("cluster.nodes=16", "parallelism.pp=2", "parallelism.layout=[63, 63]", "training.global_batch=64")


def _step(*changes: str) -> Step:
    return Step(sim.load(BASE, overrides=(*SMALL, *changes)))


def test_gradients_and_pipeline_sends_slow_each_other() -> None:
    step = _step()
    prices = step.prices
    alone = run(step.program, [p.seconds for p in prices])
    together = step.timeline
    longer = [
        (together.end_s[t.id] - together.start_s[t.id]) / prices[t.id].seconds
        for t in step.program.tasks
        if t.stream in (COLLECTIVE, SEND) and prices[t.id].seconds > 0.0
    ]
    assert max(longer) > 1.2  # some transfer met another one
    assert min(longer) > 1.0 - 1e-9  # none got faster
    assert together.makespan_s >= alone.makespan_s - 1e-12


def test_only_the_last_message_meets_an_exchange_that_waits_for_the_pipeline() -> None:
    """The last stage begins its exchange while its last gradient message is on the way: two share a NIC once."""
    step = _step("parallelism.overlap.dp=false", "parallelism.overlap.pp=false")
    alone = run(step.program, [p.seconds for p in step.prices])
    message_s = max(step.prices[t.id].seconds for t in step.program.tasks if t.stream == SEND)
    assert alone.makespan_s <= step.timeline.makespan_s <= alone.makespan_s + 2.0 * message_s


def test_no_nic_carries_more_than_it_can() -> None:
    """Work that the flows put on each link fits between the first start and the last end on it."""
    step = _step()
    shared = flows(step.program, step.prices, step.cluster)
    busy: dict[str, float] = {}
    span: dict[str, list[float]] = {}
    for task, flow in zip(step.program.tasks, shared, strict=True):
        if flow is None:
            continue
        for link, seconds in flow.demand:
            busy[link] = busy.get(link, 0.0) + seconds
            times = span.setdefault(link, [math.inf, 0.0])
            times[0] = min(times[0], step.timeline.start_s[task.id])
            times[1] = max(times[1], step.timeline.end_s[task.id])
    assert busy
    for link, seconds in busy.items():
        assert seconds <= span[link][1] - span[link][0] + 1e-9, link


def test_a_slower_tier_never_makes_a_step_faster() -> None:
    times = [
        _step(
            f"cluster.fabric={{kind: clos, tiers: 3, radix: 16, oversubscription: [1, 1, {r}]}}"
        ).timeline.makespan_s
        for r in (1, 2, 4)
    ]
    assert times == sorted(times)


def test_an_engine_without_flows_is_the_one_before() -> None:
    step = _step()
    durations = [p.seconds for p in step.prices]
    assert run(step.program, durations).end_s == run(step.program, durations, (), fair_progress).end_s


def test_fp8_payload_halves_the_gathers_and_nothing_else() -> None:
    path = "scenarios/llama3.1-70b_8xmi355x_fsdp.yaml"
    plain = Step(sim.load(path)).program
    half = Step(sim.load(path, overrides=("parallelism.gather_dtype=fp8",))).program
    for a, b in zip(plain.tasks, half.tasks, strict=True):
        ratio = 2.0 if a.kind == "gather" else 1.0
        if a.stream == COLLECTIVE:
            assert a.work[0].op.bytes == pytest.approx(ratio * b.work[0].op.bytes)  # type: ignore[union-attr]
        else:
            assert a.work == b.work

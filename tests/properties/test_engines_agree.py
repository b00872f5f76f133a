"""Three engines, one rule: events and max-plus agree to the last bit, and every rank with programs written out."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.every_rank import play_unfolded
from fakes.scenarios import small
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.data_paths import scenarios_dir
from sim.engine import events, every_rank, maxplus
from sim.program import COMPUTE, Task
from sim.step import Step

SHIPPED = sorted(path.name for path in scenarios_dir().glob("*.yaml"))


def seconds(step: Step) -> list[float]:
    return [price.seconds for price in step.prices]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_give_the_same_bits_without_contention(name: str) -> None:
    step = Step(sim.load(scenarios_dir() / name))
    slow = events.run(step.program, seconds(step))
    assert maxplus.run(step.program, seconds(step)) == slow
    grid = every_rank.program_grid(step.program)
    every = every_rank.run(step.program, grid, lambda task: step.prices[task.id].seconds)
    assert every.makespan_s.tolist() == [slow.makespan_s]


def agree(plan: tuple[str, ...], seed: int) -> None:
    """Folded engines to the last bit; every rank with durations of its own against a program written out."""
    step = Step(small("model.layers=8", *plan))
    duration_s = seconds(step)
    slow = events.run(step.program, duration_s)
    assert maxplus.run(step.program, duration_s) == slow
    factors = np.random.default_rng(seed).uniform(0.7, 1.4, (step.program.roles, step.program.ranks))

    def of_rank(task: Task, rank: int) -> float:
        return duration_s[task.id] * float(factors[task.role, rank])

    grid = every_rank.program_grid(step.program)
    vectors = [grid.spread(row[None]) for row in factors]
    fast = every_rank.run(step.program, grid, lambda task: duration_s[task.id] * vectors[task.role])
    oracle = play_unfolded(step.program, of_rank)
    assert fast.makespan_s[0] == pytest.approx(oracle.makespan_s, rel=1e-12)
    n = step.program.ranks
    last = [
        max(oracle.end_s[i * n + rank] for i in streams[COMPUTE])
        for streams in step.program.order
        for rank in range(n)
    ]
    assert np.concatenate([end[0] for end in fast.end_s]) == pytest.approx(np.array(last), rel=1e-12)


DATA = ("ddp", "zero-1", "zero-2", "fsdp")


@st.composite
def plain(draw: st.DrawFn) -> tuple[str, ...]:
    """Pipelines and replicas without anything that slows compute."""
    tp, pp = draw(st.sampled_from(((1, 2), (2, 2), (1, 4), (2, 4), (4, 2), (1, 8))))
    schedule = draw(st.sampled_from(("1f1b", "gpipe", "zb-h1")))
    micro_batch = draw(st.sampled_from((1, 2)))
    data = draw(st.sampled_from(DATA)) if tp * pp < 8 else "zero-1"
    again = draw(st.sampled_from(("true", "false")))
    order = draw(st.permutations(("tp", "dp", "pp"))) if tp * pp < 8 else ("tp", "dp", "pp")
    return (
        f"parallelism.order={'-'.join(order)}",
        f"parallelism.data_sharding={data}",
        *([f"parallelism.reshard={again}"] if data == "fsdp" else []),
        f"parallelism.tp={tp}",
        f"parallelism.pp={pp}",
        f"parallelism.schedule={schedule}",
        f"training.micro_batch={micro_batch}",
        "parallelism.overlap.dp=false",
    )


@st.composite
def overlapped(draw: st.DrawFn) -> tuple[str, ...]:
    """Exchanges beside compute, which slow it (the profile's overlap slowdown lies above 1)."""
    tp, cp, hsdp = draw(st.sampled_from(((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 2), (1, 1, 4))))
    data = "fsdp" if hsdp > 1 else draw(st.sampled_from(DATA))
    found = [f"parallelism.tp={tp}", f"parallelism.cp={cp}", f"parallelism.data_sharding={data}"]
    found += [f"parallelism.hsdp_replicas={hsdp}"] if hsdp > 1 else []
    found += [f"parallelism.cp_method={draw(st.sampled_from(('ring', 'all-gather', 'all-to-all')))}"] * (
        cp > 1
    )
    return (*found, f"training.micro_batch={draw(st.sampled_from((1, 2, 4)))}")


@st.composite
def chunked(draw: st.DrawFn) -> tuple[str, ...]:
    """Several parts of the model on each stage."""
    schedule = draw(st.sampled_from(("interleaved", "zbv", "v-half", "v-min")))
    tp, pp = draw(st.sampled_from(((1, 2), (2, 2), (1, 4), (2, 4))))
    found = [f"parallelism.tp={tp}", f"parallelism.pp={pp}", f"parallelism.schedule={schedule}"]
    return (*found, *(["parallelism.virtual_stages=2"] * (schedule == "interleaved")))


def test_the_profile_of_the_small_scenario_slows_compute_beside_exchanges() -> None:
    assert Step(small()).cluster.stack.overlap_slowdown > 1.0


@settings(deadline=None, max_examples=25)
@given(plain() | overlapped() | chunked(), st.integers(0, 2**32 - 1))
def test_a_few_random_programs_agree(plan: tuple[str, ...], seed: int) -> None:
    agree(plan, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(plain(), st.integers(0, 2**32 - 1))
def test_150_random_pipelines_agree(plan: tuple[str, ...], seed: int) -> None:
    agree(plan, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=120)
@given(overlapped(), st.integers(0, 2**32 - 1))
def test_120_random_overlapped_programs_agree(plan: tuple[str, ...], seed: int) -> None:
    agree(plan, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(chunked(), st.integers(0, 2**32 - 1))
def test_60_random_programs_with_several_chunks_agree(plan: tuple[str, ...], seed: int) -> None:
    agree(plan, seed)

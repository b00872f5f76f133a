"""Steps that differ by chance: closed forms, bounds, and devices known to be slow."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from fakes.scenarios import small
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import every_rank, maxplus
from sim.engine.critical_path import critical_path
from sim.ops import Collective, Group, Stream
from sim.pricing import Part, Price
from sim.program import COMPUTE, Program, Task, Work
from sim.results import StepSpread
from sim.scenario.errors import ScenarioError
from sim.scenario.variability import VariabilitySpec
from sim.spread import step_spread
from sim.spread.durations import Base, Durations
from sim.spread.places import Places
from sim.step import Step


def one_task(ranks: int) -> tuple[Program, Base]:
    """One second of compute that ends with a barrier of all ranks."""
    everybody = Group("all", ranks, ranks, 1)
    work = (Work(Stream(1.0), "gemm"), Work(Collective("all_reduce", 0.0, everybody), "data_parallel"))
    task = Task(0, 0, COMPUTE, "forward", "all", 0, (0, 1), work)
    program = Program((task,), ({COMPUTE: (0,)},), tuple(range(ranks)))
    price = Price(1.0, (Part("gemm", 1.0, 0.0, 0.0),))
    return program, Base(maxplus.run(program, [1.0]), (price,))


def spread(ranks: int, **asked: object) -> StepSpread:
    program, base = one_task(ranks)
    return step_spread(
        program, [base], Places(1, ranks, ranks, 8, 8), VariabilitySpec.model_validate(asked), 7
    )


def of(*changes: str) -> StepSpread:
    found = Step(small(*changes)).spread
    assert found is not None
    return found


@pytest.mark.parametrize("ranks", [8, 256, 2048])
def test_the_slowest_of_many_gpus_is_that_of_the_closed_form(ranks: int) -> None:
    """Expected maximum of N normal times, 1 + σ·Φ⁻¹((N − 0.375)/(N + 0.25)) (Blom); itself within 0.02 σ."""
    found = spread(ranks, gpu_sigma=0.01, trials=1000)
    blom = 1.0 + 0.01 * NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
    assert abs(found.mean_s - blom) <= 3 * found.standard_error_s + 0.02 * 0.01


def test_noise_that_all_share_has_its_own_spread_and_no_bias() -> None:
    found = spread(1024, step_noise=0.005, trials=4000)
    assert abs(found.mean_s - 1.0) <= 3 * found.standard_error_s
    assert found.standard_error_s * math.sqrt(4000) == pytest.approx(0.005, rel=0.05)


def test_stalls_add_their_rate_times_their_length() -> None:
    found = spread(64, stalls_per_hour=36.0, stall="2 s", trials=50_000)
    assert abs(found.mean_s - (1.0 + 36.0 / 3600.0 * 2.0)) <= 3 * found.standard_error_s
    assert found.percentiles_s["p95"] == 1.0


def test_one_slow_gpu_makes_all_wait() -> None:
    found = spread(64, slow=[{"node": 3, "gpu": 1, "speed": 0.8}])
    assert found.trials == 1
    assert found.mean_s == 1.25
    assert found.decider.startswith("GPU 1 of node 3 (rank 25) holds 100%")
    assert [gain.seconds for gain in found.gains] == [0.25]


def test_the_same_seed_gives_the_same_bits_and_another_one_others() -> None:
    changes = (
        "variability={gpu_sigma: 0.02, kernel_jitter: 0.01, collective_jitter: 0.1, trials: 20}",
        "parallelism.pp=2",
    )
    assert of(*changes) == of(*changes)
    assert of(*changes) != of(*changes, "seed=1")


@pytest.mark.parametrize("kind", ["gpu_sigma", "kernel_jitter", "collective_jitter", "work_sigma"])
def test_any_difference_between_ranks_makes_steps_longer_on_average(kind: str) -> None:
    plan = ("parallelism.pp=2", "parallelism.tp=2")
    means = [of(*plan, f"variability={{{kind}: {x}, trials: 60}}").mean_s for x in (0.02, 0.05)]
    nominal = Step(small(*plan)).timeline.makespan_s
    assert nominal < means[0] < means[1]


def test_a_slow_nic_counts_between_nodes_only() -> None:
    slow = "variability={slow: [{node: 0, nic: 0, speed: 0.1}]}"
    alone = of(slow)
    assert alone.mean_s == alone.nominal_s
    two = of("cluster.nodes=2", "parallelism.overlap.dp=false", slow)
    assert two.mean_s > 1.01 * two.nominal_s
    assert two.gains[0].seconds == pytest.approx(two.mean_s - two.nominal_s, rel=1e-9)


def test_the_critical_path_is_as_long_as_the_step() -> None:
    step = Step(small("parallelism.pp=4", "parallelism.tp=2", "cluster.nodes=2"))
    base = Base(step.timeline, step.prices)
    grid = every_rank.program_grid(step.program)
    places = Places(4, step.program.ranks, step.program.ranks, 8, 8)
    asked = VariabilitySpec(gpu_sigma=0.05, kernel_jitter=0.05, collective_jitter=0.5, trials=1)
    times = every_rank.run(step.program, grid, Durations(base, grid, places, asked, 3, (0,)), keep=True)
    path = critical_path(times)
    assert math.fsum(link.seconds for link in path) == pytest.approx(times.makespan_s[0], rel=1e-12)
    assert path[0].task.microbatch == 0
    assert path[-1].task.kind in ("optimizer", "host")


@given(st.sampled_from([(2, 16, 16), (4, 16, 4), (4, 24, 8), (1, 8, 8)]), st.integers(0, 1000))
def test_every_gpu_is_one_rank_of_one_role(shape: tuple[int, int, int], number: int) -> None:
    roles, ranks, stride = shape
    places = Places(roles, ranks, stride, 8, 4)
    number %= roles * ranks
    role, rank = places.of_gpu(*divmod(number, 8))
    assert 0 <= role < roles
    assert 0 <= rank < ranks
    assert places.number(role, rank) == number


def test_four_nics_serve_eight_gpus_in_pairs() -> None:
    assert Places(1, 16, 16, 8, 4).of_nic(1, 2) == ((0, 12), (0, 13))


def test_a_path_needs_what_was_kept() -> None:
    step = Step(small())
    grid = every_rank.program_grid(step.program)
    with pytest.raises(ValueError, match="keep=True"):
        critical_path(every_rank.run(step.program, grid, lambda task: step.prices[task.id].seconds))


def test_hashed_paths_are_drawn_anew() -> None:
    fabric = "cluster.fabric={kind: clos, tiers: 2, routing: ecmp}"
    found = of(
        fabric,
        "cluster.nodes=64",
        "training.global_batch=512",
        "parallelism.overlap.dp=false",
        "variability={trials: 8}",
    )
    assert found.percentiles_s["p99"] > found.percentiles_s["p05"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{trials: 10}", "says nothing that differs"),
        ("{gpu_sigma: 2}", "below 1"),
        ("{stalls_per_hour: 3}", "a stall needs both"),
        ("{slow: [{node: 0, speed: 0.5}]}", "either gpu or nic"),
        ("{slow: [{node: 0, gpu: 8, speed: 0.5}]}", "GPU 8 of a node with 8"),
        ("{slow: [{node: 1, gpu: 0, speed: 0.5}]}", "node 1 is not in use"),
        ("{slow: [{node: 0, nic: 8, speed: 0.5}]}", "NIC 8 of a node with 8"),
        ("{slow: [{node: 0, gpu: 1, speed: 0.5}, {node: 0, gpu: 1, speed: 0.5}]}", "names a device twice"),
    ],
)
def test_what_cannot_be_is_refused(written: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        small(f"variability={written}")

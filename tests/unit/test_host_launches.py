"""Steps that the host cannot launch fast enough."""

from __future__ import annotations

import pytest

from sim.ops import Launches
from sim.results import StepResult
from sim.step import Step, simulate
from tests.fakes.scenarios import small

TINY = ("training.sequence_length=128", "training.global_batch=8")


def step(*changes: str) -> StepResult:
    return simulate(small(*TINY, *changes))


def kernels() -> float:
    tasks = Step(small(*TINY)).program.tasks
    return sum(w.count * w.op.kernels for t in tasks for w in t.work if isinstance(w.op, Launches))


def test_compute_takes_at_least_what_its_launches_take() -> None:
    limited = step("training.host_launch=1 ms")
    floor = kernels() * 1e-3
    assert limited.step_time_s >= floor
    assert limited.step_time_s == pytest.approx(
        floor, rel=0.05
    )  # what has no launches of its own comes on top
    assert limited.breakdown_s["host"] > 0.9 * floor


def test_a_host_that_keeps_ahead_changes_nothing() -> None:
    assert step("training.host_launch=1 ns").step_time_s == step().step_time_s


def test_large_batches_hide_the_host() -> None:
    changes = ("training.sequence_length=2048", "training.micro_batch=4")
    plain, limited = (simulate(small(*changes, *more)) for more in ((), ("training.host_launch=10 us",)))
    assert limited.step_time_s == pytest.approx(plain.step_time_s, rel=1e-9)


def test_a_slower_host_is_never_faster() -> None:
    times = [step(f"training.host_launch={us} us").step_time_s for us in (1, 5, 20, 50, 200)]
    assert times == sorted(times)

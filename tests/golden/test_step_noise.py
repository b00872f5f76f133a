"""Steps of one job: what noise and stalls explain of 23 published runs, each predicted from the 22 others."""

from __future__ import annotations

import pytest

from sim.data_paths import steps_dir
from sim.ledger.step_noise import (
    JobSteps,
    left_out_errors,
    published_steps,
    with_stalls,
    without_noise,
    without_stalls,
)


@pytest.fixture(scope="module")
def jobs() -> tuple[JobSteps, ...]:
    return published_steps(steps_dir())


def test_there_are_23_runs_from_8_to_8192_gpus(jobs: tuple[JobSteps, ...]) -> None:
    assert len(jobs) == 23
    assert {min(job.gpus for job in jobs), max(job.gpus for job in jobs)} == {8, 8192}
    assert all(job.p05_s <= job.p50_s <= job.p95_s <= job.p99_s for job in jobs)


def test_one_noise_and_rare_stalls_beat_both_simpler_models(jobs: tuple[JobSteps, ...]) -> None:
    """p95 by a fifth, p99 by a tenth, no run judging itself: heavy tails at two sites are half of what is left."""
    none, body, stalls = (left_out_errors(jobs, fit) for fit in (without_noise, without_stalls, with_stalls))
    assert stalls[0] < 0.82 * body[0] < 0.82 * none[0]
    assert stalls[1] < 0.90 * body[1] < 0.90 * none[1]
    assert stalls == pytest.approx((0.0071, 0.0211), abs=0.0003)  # what docs/models.md says


def test_the_figures_of_the_docs(jobs: tuple[JobSteps, ...]) -> None:
    noise = with_stalls(jobs)
    assert 0.004 <= noise.sigma <= 0.009
    assert 1.0 <= noise.stall_s <= 3.0

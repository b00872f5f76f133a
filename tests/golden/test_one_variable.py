"""Pairs of published runs that differ in one thing: which is faster, and by how much.

A model can be right on every run and still misjudge what a change brings, and the reverse: these ratios are
free of whatever two runs of one source share.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sim.data_paths import measured_dir
from sim.ledger import load_directory
from sim.ledger.report import score_files
from sim.ledger.score import ScoredRun, read_scenario
from sim.scenario import Scenario
from sim.step import simulate

FAMILIES = ("primus-v3-4l", "primus-qwen3-30b", "primus-mixtral-8x7b", "maxtext-v3", "maxtext-70b")


@pytest.fixture(scope="module")
def runs() -> dict[str, ScoredRun]:
    files = load_directory(measured_dir())
    kept = [
        replace(file, runs=tuple(run for run in file.runs if run.id.startswith(FAMILIES))) for file in files
    ]
    return {run.run.id: run for run in score_files([file for file in kept if file.runs]).runs}


def per_token(run: ScoredRun) -> tuple[float, float]:
    """Seconds per token of one GPU: measured, predicted."""
    assert run.measured_step_s is not None
    assert run.predicted_step_s is not None
    tokens = run.tokens_per_step / run.n_gpus
    return run.measured_step_s / tokens, run.predicted_step_s / tokens


def gains(runs: dict[str, ScoredRun], slow: str, fast: str) -> tuple[float, float]:
    before, after = per_token(runs[slow]), per_token(runs[fast])
    return before[0] / after[0], before[1] / after[1]


@pytest.mark.parametrize(
    ("slow", "fast", "published", "within"),
    [
        # Dispatch and combine inside the experts' kernels instead of before and after them.
        ("primus-v3-4l-8xmi355x-deduplicated", "primus-v3-4l-8xmi355x-fused", 1.132, 0.06),
        (
            "primus-v3-4l-mtp-8xmi355x-bf16-deduplicated",
            "primus-v3-4l-mtp-8xmi355x-bf16-fused",
            1.082,
            0.06,
        ),
        (
            "primus-v3-4l-mtp-8xmi355x-mxfp8-deduplicated",
            "primus-v3-4l-mtp-8xmi355x-mxfp8-fused",
            1.123,
            0.06,
        ),
        # Linear layers in eight bits: casts eat much of what the products gain.
        (
            "primus-v3-4l-mtp-8xmi355x-bf16-deduplicated",
            "primus-v3-4l-mtp-8xmi355x-mxfp8-deduplicated",
            1.131,
            0.08,
        ),
        ("primus-v3-4l-mtp-8xmi355x-bf16-fused", "primus-v3-4l-mtp-8xmi355x-mxfp8-fused", 1.174, 0.08),
        # One kernel over the experts of a rank instead of a loop.
        ("primus-qwen3-30b-8xmi355x-fp8-loop", "primus-qwen3-30b-8xmi355x-fp8-pooled", 1.058, 0.05),
        # TP2 x EP4 to TP1 x EP8 (and smaller micro-batches): rows need not cross the link of a pair.
        (
            "primus-mixtral-8x7b-32xmi300x-tp2-ep4",
            "primus-mixtral-8x7b-32xmi300x-tp1-ep8",
            1.50,
            0.06,
        ),
        ("maxtext-70b-8xmi355x-batch8", "maxtext-70b-8xmi355x-batch11", 0.9993, 0.03),
    ],
)
def test_one_change_brings_what_it_brought(
    runs: dict[str, ScoredRun], slow: str, fast: str, published: float, within: float
) -> None:
    """Gain in tokens per second and GPU, and on the same side of 1."""
    measured, predicted = gains(runs, slow, fast)
    assert measured == pytest.approx(published, rel=2e-3)
    assert predicted == pytest.approx(measured, rel=within)
    assert abs(measured - 1.0) < 0.01 or (measured > 1.0) == (predicted > 1.0)


@pytest.mark.parametrize("batch", [4, 9, 16])
def test_capacity_costs_rows(runs: dict[str, ScoredRun], batch: int) -> None:
    """MaxText: at each batch the larger capacity is slower, by what it was within 10 %."""
    named = [f"maxtext-v3-64xmi355x-batch{batch}-capacity{c}" for c in ("4", "2", "1.25")]
    present = [name for name in named if name in runs]
    assert len(present) >= 2
    for slow, fast in pairwise(present):
        measured, predicted = gains(runs, slow, fast)
        assert min(measured, predicted) > 1.05
        assert predicted == pytest.approx(measured, rel=0.15 if batch == 4 else 0.05)


@pytest.mark.parametrize("capacity", ["1.25", "2"])
def test_larger_batches_hide_more_of_the_gathers(runs: dict[str, ScoredRun], capacity: str) -> None:
    """MaxText: tokens per second rise with the batch, from 4 to 9 far more than from 9 to 16."""
    named = [f"maxtext-v3-64xmi355x-batch{batch}-capacity{capacity}" for batch in (4, 9, 16)]
    found = [gains(runs, slow, fast) for slow, fast in pairwise(named)]
    for measured, predicted in found:
        assert min(measured, predicted) > 1.0
        assert predicted == pytest.approx(measured, rel=0.12)
    for kind in (0, 1):
        assert found[0][kind] > found[1][kind]


def natural(run: ScoredRun, ep: int, balance: float) -> float:
    """Step of the run's four layers under natural routing, experts in a loop, 128 sequences."""
    scenario: Scenario = read_scenario(run.run)
    training = scenario.training
    moe = training.moe.model_copy(update={"balance_factor": balance, "grouped_gemm": "loop"})
    training = training.model_copy(update={"moe": moe, "global_batch": 128})
    spread = scenario.parallelism.model_copy(update={"ep": ep})
    return simulate(scenario.model_copy(update={"training": training, "parallelism": spread})).step_time_s


def test_four_ranks_of_experts_against_eight_under_natural_routing(runs: dict[str, ScoredRun]) -> None:
    """AMD-AGI/Primus, branch moe/fsep, commits 2728a138 and 3574848a: 2.6825 s with EP8, 4.0108 s with EP4.

    An untrained router sends all tokens the same way, as far as its own limit on groups of experts lets it: 4 of 8
    groups, so that the fullest of 8 ranks holds at most twice the mean, and the fullest of 4 ranks, with two
    groups each, between twice and four times.
    """
    run = runs["primus-v3-4l-8xmi355x-deduplicated"]
    eight, least, most = natural(run, 8, 2.0), natural(run, 4, 2.0), natural(run, 4, 4.0)
    assert eight == pytest.approx(2.6825, rel=0.05)
    assert least < 4.0108 < most
    assert least / eight < 4.0108 / 2.6825 < most / eight
    assert natural(run, 4, 1.0) > natural(run, 8, 1.0)

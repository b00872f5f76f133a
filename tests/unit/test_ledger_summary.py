"""Grouping of sites and the mean errors, on made-up numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.ledger import scored_run

from sim.ledger.run import Measured
from sim.ledger.summary import Statistic, configurations, summary


def test_sites_of_one_configuration_count_once_by_their_mean() -> None:
    runs = [
        scored_run(f"site {i}", measured=m, predicted=2.2, configuration="x")
        for i, m in enumerate((1.8, 2.2))
    ]
    (only,) = configurations(runs)
    assert only.measured_step_s == pytest.approx(2.0)
    assert only.error == pytest.approx(0.1)  # not the mean of +22 % and 0 %


def test_tuned_and_untuned_and_splits_are_never_mixed() -> None:
    runs = [
        scored_run("a", configuration="x"),
        scored_run("b", configuration="x", tuned=False, untuned_evidence="slow"),
        scored_run("c", configuration="x", split="fit"),
    ]
    assert len(configurations(runs)) == 3


def test_a_run_without_a_prediction_or_a_time_is_left_out() -> None:
    runs = [scored_run("a", predicted=None), scored_run("b", measured_step_s=None), scored_run("c")]
    assert [c.first.run.id for c in configurations(runs)] == ["c"]


def test_statistic_of_known_errors() -> None:
    runs = [scored_run("a", predicted=2.2), scored_run("b", predicted=1.4), scored_run("c", predicted=2.0)]
    statistic = Statistic.of(configurations(runs))
    assert statistic is not None
    assert statistic.mape == pytest.approx((0.1 + 0.3 + 0.0) / 3)
    assert statistic.bias == pytest.approx((0.1 - 0.3) / 3)
    assert (statistic.worst, statistic.worst_id) == (pytest.approx(-0.3), "b")
    assert Statistic.of([]) is None


def test_summary_by_split_tuning_lora_gpu_and_stack() -> None:
    runs = [
        scored_run("a", predicted=2.2),
        scored_run("b", predicted=2.4, lora=True, gpu="mi355x", stack="other"),
        scored_run("c", predicted=3.0, tuned=False, untuned_evidence="eager"),
        scored_run("d", predicted=2.02, split="fit"),
        scored_run("e", predicted=None, failure="too long"),
    ]
    result = summary(runs)
    check = result["check"]
    assert check["tuned"]["mape"] == pytest.approx(0.15)
    assert check["tuned_without_lora"]["mape"] == pytest.approx(0.1)
    assert check["tuned_lora"]["mape"] == pytest.approx(0.2)
    assert check["untuned"]["mape"] == pytest.approx(0.5)
    assert result["fit"]["tuned"]["mape"] == pytest.approx(0.01)
    assert {gpu: s["configurations"] for gpu, s in result["check_by_gpu"].items()} == {
        "mi325x": 1,
        "mi355x": 1,
    }
    assert set(result["check_by_stack"]) == {"example-stack", "other"}
    assert (result["runs"], result["not_predicted"]) == (5, 1)


def test_memory_errors_count_a_configuration_once() -> None:
    measured = Measured(step_time_s=1.0, allocated_bytes_by_stage=(100.0, 200.0))
    runs = [
        replace(run, run=replace(run.run, measured=measured))
        for name in ("a", "b")
        for run in [scored_run(name, configuration="x", predicted_allocated_bytes=(101.0, 196.0))]
    ]
    memory = summary(runs)["memory"]
    assert (memory["configurations"], memory["stages"]) == (1, 2)
    assert memory["mape"] == pytest.approx(0.015)
    assert memory["worst"] == pytest.approx(-0.02)

"""How wrong the predictions may be: the bars this project set itself, over the published runs it ships."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean
from typing import Any

import pytest

from hwmodels import catalog
from sim.ledger import LedgerReport, validate
from sim.ledger.score import ScoredRun
from sim.ledger.summary import Configuration, configurations


@pytest.fixture(scope="module")
def ledger() -> LedgerReport:
    return validate()


@pytest.fixture(scope="module")
def summary(ledger: LedgerReport) -> dict[str, Any]:
    found: dict[str, Any] = ledger.to_dict()["summary"]
    return found


def distinct(ledger: LedgerReport, split: str, *, tuned: bool = True) -> list[Configuration]:
    grouped = configurations(ledger.runs)
    return [c for c in grouped if c.first.run.split == split and c.first.run.tuned == tuned]


def test_every_run_is_predicted_and_there_are_enough(ledger: LedgerReport) -> None:
    assert [run.run.id for run in ledger.runs if run.failure] == []
    assert len(ledger.runs) >= 45


def test_tuned_checks_err_by_at_most_6_percent_with_and_without_lora(summary: dict[str, Any]) -> None:
    for kind in ("tuned", "tuned_without_lora", "tuned_lora"):
        assert summary["check"][kind]["mape"] <= 0.06, kind


def test_the_mean_is_over_distinct_configurations(ledger: LedgerReport, summary: dict[str, Any]) -> None:
    """The figure above, computed from the runs themselves: sites of one configuration count once."""
    sites: dict[str, list[ScoredRun]] = defaultdict(list)
    for run in ledger.runs:
        if run.run.split == "check" and run.run.tuned and run.measured_step_s and run.predicted_step_s:
            sites[run.configuration].append(run)
    errors = []
    for runs in sites.values():
        measured = fmean(run.measured_step_s or 0.0 for run in runs)
        errors.append(abs((runs[0].predicted_step_s or 0.0) / measured - 1.0))
    assert summary["check"]["tuned"]["configurations"] == len(errors)
    assert summary["check"]["tuned"]["mape"] == pytest.approx(fmean(errors), rel=1e-9)


def test_no_tuned_check_errs_by_more_than_20_percent_without_a_stated_reason(ledger: LedgerReport) -> None:
    bad = [
        (c.first.run.id, round(c.error, 3))
        for c in distinct(ledger, "check")
        if abs(c.error) > 0.20 and not all(run.run.known_reason for run in c.runs)
    ]
    assert bad == []


def test_amd_checks_err_by_at_most_5_percent(ledger: LedgerReport) -> None:
    amd = [c for c in distinct(ledger, "check") if catalog.gpu(c.first.gpu).vendor == "AMD"]
    assert len(amd) >= 10
    assert fmean(abs(c.error) for c in amd) <= 0.05


def test_lumi_scales_as_measured(ledger: LedgerReport) -> None:
    """175B on 128 and 512 GCDs: each within 4 %, their ratio within 3 %."""
    runs = {run.run.id: run for run in ledger.runs}
    errors = [runs[f"lumi-175b-{gcds}gcd"].error for gcds in (128, 512)]
    small, large = (math.nan if e is None else e for e in errors)
    assert abs(small) <= 0.04
    assert abs(large) <= 0.04
    assert abs((1 + large) / (1 + small) - 1) <= 0.03


def test_fitted_stacks_really_fit_their_fit_runs(ledger: LedgerReport) -> None:
    """A stack's figures come from its fit runs, so their mean log error is small; check runs owe nothing."""
    by_stack: dict[str, list[float]] = defaultdict(list)
    for configuration in distinct(ledger, "fit"):
        by_stack[configuration.first.stack].append(math.log(1.0 + configuration.error))
    assert len(by_stack) >= 5
    off = {stack: round(fmean(e), 4) for stack, e in by_stack.items() if abs(fmean(e)) > 0.03}
    assert off == {}


def test_at_most_two_configurations_of_a_stack_are_fitted(ledger: LedgerReport) -> None:
    """The split rule: one or two configurations per (GPU, stack), with all their sites."""
    fitted: dict[tuple[str, str], set[str]] = defaultdict(set)
    checked = set()
    for run in ledger.runs:
        if run.run.split == "fit":
            fitted[run.gpu, run.stack].add(run.configuration)
        else:
            checked.add(run.configuration)
    assert {pair: len(c) for pair, c in fitted.items() if len(c) > 2} == {}
    assert not checked & set().union(*fitted.values())


def test_untuned_runs_say_why(ledger: LedgerReport) -> None:
    assert [r.run.id for r in ledger.runs if not r.run.tuned and not r.run.untuned_evidence] == []

"""The published runs themselves: they load, they follow the split rule, nothing is taken on trust."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest

from sim.data_paths import measured_dir
from sim.ledger import load_directory
from sim.ledger.run import LedgerFile, MeasuredRun
from sim.ledger.score import configuration, read_scenario
from sim.scenario import Scenario

MOST_FIT_CONFIGURATIONS = 2  # per GPU and stack; validation/README.md


@cache
def files() -> tuple[LedgerFile, ...]:
    return load_directory(measured_dir())


@cache
def runs() -> tuple[MeasuredRun, ...]:
    return tuple(run for file in files() for run in file.runs)


@cache
def scenarios() -> tuple[tuple[MeasuredRun, Scenario], ...]:
    return tuple((run, read_scenario(run)) for run in runs())


def test_enough_runs_are_published() -> None:
    assert len(runs()) >= 45
    assert sum(run.id.startswith("llm-foundry-") for run in runs()) >= 20


def test_every_scenario_loads() -> None:
    assert len(scenarios()) == len(runs())


def test_every_run_names_its_stack() -> None:
    assert [run.id for run, scenario in scenarios() if scenario.cluster.stack is None] == []


def test_every_run_says_where_it_was_published_and_how_sure_it_is() -> None:
    for run in runs():
        assert run.source.title, run.id
        assert run.source.url.startswith("https://"), run.id
        assert run.source.where, run.id
        assert run.source.date, run.id
        assert run.source.license, run.id
        assert run.confidence, run.id


def test_few_settings_are_assumed() -> None:
    assert {run.id: len(run.assumed) for run in runs() if len(run.assumed) > 3} == {}


def test_at_most_two_configurations_are_fit_per_gpu_and_stack() -> None:
    fit: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for run, scenario in scenarios():
        if run.split == "fit":
            fit[scenario.cluster.node, scenario.cluster.stack].add(configuration(scenario))
    assert {key: len(found) for key, found in fit.items() if len(found) > MOST_FIT_CONFIGURATIONS} == {}


def test_no_configuration_is_on_both_sides_or_both_tuned_and_not() -> None:
    sides: dict[str, set[tuple[str, bool]]] = defaultdict(set)
    for run, scenario in scenarios():
        sides[configuration(scenario)].add((run.split, run.tuned))
    assert {digest: found for digest, found in sides.items() if len(found) > 1} == {}


def test_untuned_runs_have_evidence_and_are_never_fit() -> None:
    untuned = [run for run in runs() if not run.tuned]
    assert untuned
    for run in untuned:
        assert run.untuned_evidence, run.id
        assert run.split == "check", run.id


def test_nothing_that_is_set_aside_is_scored() -> None:
    aside = {row.id for file in files() for row in file.set_aside}
    assert aside
    assert aside & {run.reference for run in runs()} == set()


@pytest.mark.parametrize("name", ["lumi-175b-128gcd", "primus-8b-8xmi325x-bf16"])
def test_the_named_runs_are_fit(name: str) -> None:
    assert [run.split for run in runs() if run.id == name] == ["fit"]


def test_memory_of_a_b200_run_is_given_by_stage() -> None:
    (run,) = [run for run in runs() if run.id == "simumax-70b-12l-8xb200-tp1-pp2-m8"]
    mib = 2.0**20
    assert run.measured.allocated_bytes_by_stage == (68149 * mib, 64479 * mib)
    assert run.measured.peak_memory_bytes == 68149 * mib

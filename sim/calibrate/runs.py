"""GEMM efficiency from training runs, where no GEMM log gives it: the figure that moves a step most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from hwmodels.cluster import Cluster
from hwmodels.gpu import Gpu
from hwmodels.stack import StackProfile
from sim.calibrate.errors import CalibrationError
from sim.calibrate.evidence import Evidence
from sim.calibrate.fit import Accuracy, Fitted, Timing, mean_absolute_error, solve
from sim.ledger.score import read_scenario
from sim.scenario import Scenario
from sim.step import Step

_STEPS = 10  # of bisection: 0.4 % of the figure


@dataclass(frozen=True, kw_only=True)
class _Under(Step):
    """A step under a profile that no catalog has yet."""

    profile: StackProfile

    @cached_property
    def cluster(self) -> Cluster:
        return replace(Step(self.scenario).cluster, stack=self.profile)

    @property
    def seconds(self) -> float:
        return self.timeline.step_s


@dataclass(frozen=True)
class _Run:
    log: str
    name: str
    scenario: Scenario
    measured_s: float


def fit_runs(evidence: Evidence, gpu: Gpu, stack: StackProfile, fitted: frozenset[str]) -> Iterator[Fitted]:
    """One figure per precision whose GEMM efficiency is not among the ``fitted`` already."""
    by_format: dict[str, list[_Run]] = defaultdict(list)
    for run in _runs(evidence, gpu):
        by_format[run.scenario.training.precision].append(run)
    for dtype, runs in by_format.items():
        key = f"gemm_efficiency.{dtype}"
        if key in fitted:
            evidence.notes.append(f"{key}: comes from GEMM logs; {len(runs)} training runs only check it")
            continue
        value = solve([Timing(run.measured_s, _seconds(run, stack, dtype)) for run in runs], _STEPS)
        if value is None:
            evidence.notes.append(f"{key}: not fitted: no GEMM rate alone explains these {len(runs)} runs")
            continue
        logs = tuple(dict.fromkeys(run.log for run in runs))
        note = f"median over the step times of {len(runs)} training runs, other figures as in the base"
        yield Fitted(key, value, stack.gemm_efficiency.get(dtype), logs, note)


def run_accuracy(
    evidence: Evidence, gpu: Gpu, before: StackProfile, after: StackProfile
) -> Iterator[Accuracy]:
    for run in _runs(evidence, gpu):
        errors = [
            mean_absolute_error([_Under(scenario=run.scenario, profile=stack).seconds], [run.measured_s])
            for stack in (before, after)
        ]
        yield Accuracy(run.log, f"training run {run.name}", 1, *errors)


def _seconds(run: _Run, stack: StackProfile, dtype: str) -> Callable[[float], float]:
    def seconds(value: float) -> float:
        changed = replace(stack, gemm_efficiency={**stack.gemm_efficiency, dtype: value})
        return _Under(scenario=run.scenario, profile=changed).seconds

    return seconds


def _runs(evidence: Evidence, gpu: Gpu) -> Iterator[_Run]:
    problems: list[str] = []
    for log, run in evidence.runs:
        scenario = read_scenario(run)
        training = scenario.training
        tokens = float(training.global_batch) * training.sequence_length
        measured = run.measured.step_time(training.global_batch, tokens, scenario.gpus)
        found = Step(scenario).cluster.gpu.name
        if found != gpu.name:
            problems.append(f"{run.location}: {run.id}: runs on {found}, the profile is for {gpu.name}")
        elif measured is not None:
            yield _Run(log, run.id, scenario, measured)
    if problems:
        raise CalibrationError(problems)

"""How good the predictions are as a whole: mean absolute errors over distinct configurations.

Runs of one configuration at several sites count once: their measured step times are averaged before the
error is taken. Tuned and untuned runs are never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sim.ledger.score import ScoredRun


@dataclass(frozen=True)
class Configuration:
    """All runs of one scenario. Times are seconds per step; the measured one is the mean over the runs."""

    runs: tuple[ScoredRun, ...]
    measured_step_s: float
    predicted_step_s: float

    @property
    def first(self) -> ScoredRun:
        return self.runs[0]

    @property
    def error(self) -> float:
        return self.predicted_step_s / self.measured_step_s - 1


@dataclass(frozen=True)
class Statistic:
    """Errors of some configurations: mean absolute, mean signed (bias) and the worst one."""

    configurations: int
    runs: int
    mape: float
    bias: float
    worst: float  # signed
    worst_id: str

    @staticmethod
    def of(configurations: Sequence[Configuration]) -> Statistic | None:
        """None where there is nothing to average."""
        if not configurations:
            return None
        errors = [configuration.error for configuration in configurations]
        worst = max(configurations, key=lambda configuration: abs(configuration.error))
        return Statistic(
            configurations=len(configurations),
            runs=sum(len(configuration.runs) for configuration in configurations),
            mape=fmean(map(abs, errors)),
            bias=fmean(errors),
            worst=worst.error,
            worst_id=worst.first.run.id,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "configurations": self.configurations,
            "runs": self.runs,
            "mape": self.mape,
            "bias": self.bias,
            "worst": self.worst,
            "worst_id": self.worst_id,
        }


def configurations(runs: Iterable[ScoredRun]) -> tuple[Configuration, ...]:
    """Runs with a measured and a predicted step time, by configuration, split and tuning, in file order."""
    groups: dict[tuple[str, str, bool, float], list[tuple[ScoredRun, float]]] = {}
    for run in runs:
        measured, predicted = run.measured_step_s, run.predicted_step_s
        if measured is not None and predicted is not None:
            key = (run.configuration, run.run.split, run.run.tuned, predicted)
            groups.setdefault(key, []).append((run, measured))
    return tuple(
        Configuration(tuple(run for run, _ in group), fmean(measured for _, measured in group), key[-1])
        for key, group in groups.items()
    )


def summary(runs: Sequence[ScoredRun]) -> dict[str, Any]:
    """The ``summary`` of ``sim validate --json``.

    Of transformers, by split: tuned, tuned without and with LoRA, untuned; then the tuned check configurations by
    GPU and by stack. Then recommenders, whose errors are another model's; the memory errors; and how many runs have
    no prediction.
    """
    everything = configurations(runs)
    grouped = [c for c in everything if not c.first.recommender]
    check = [c for c in grouped if c.first.run.split == "check" and c.first.run.tuned]
    return {
        "check": _split(grouped, "check"),
        "fit": _split(grouped, "fit"),
        "check_by_gpu": _by(check, lambda c: c.first.gpu),
        "check_by_stack": _by(check, lambda c: c.first.stack),
        "recommenders": _recommenders([c for c in everything if c.first.recommender]),
        "memory": _memory(runs),
        "runs": len(runs),
        "not_predicted": sum(1 for run in runs if run.failure),
    }


def _split(grouped: Iterable[Configuration], split: str) -> dict[str, Any]:
    members = [c for c in grouped if c.first.run.split == split]
    tuned = [c for c in members if c.first.run.tuned]
    kinds = {
        "tuned": tuned,
        "tuned_without_lora": [c for c in tuned if not c.first.lora],
        "tuned_lora": [c for c in tuned if c.first.lora],
        "untuned": [c for c in members if not c.first.run.tuned],
    }
    return {name: _dict(kind) for name, kind in kinds.items() if kind}


def _recommenders(grouped: Sequence[Configuration]) -> dict[str, Any]:
    """Tuned check configurations by family and by GPU, and those that figures were fitted on."""
    check = [c for c in grouped if c.first.run.split == "check" and c.first.run.tuned]
    fit = [c for c in grouped if c.first.run.split == "fit"]
    kinds = {**by_family(check), **({"fit": fit} if fit else {})}
    return {name: _dict(kind) for name, kind in kinds.items()} | _by(check, lambda c: c.first.gpu)


def by_family(grouped: Iterable[Configuration]) -> dict[str, list[Configuration]]:
    """Configurations by the family that ranges know them by, in the order of the ledger."""
    found: dict[str, list[Configuration]] = {}
    for configuration in grouped:
        case = configuration.first.case
        found.setdefault("unknown" if case is None else case.family, []).append(configuration)
    return found


def _by(grouped: Iterable[Configuration], key: Callable[[Configuration], str]) -> dict[str, Any]:
    groups: dict[str, list[Configuration]] = {}
    for configuration in grouped:
        groups.setdefault(key(configuration), []).append(configuration)
    return {name: _dict(groups[name]) for name in sorted(groups)}


def _dict(grouped: Sequence[Configuration]) -> dict[str, Any]:
    statistic = Statistic.of(grouped)
    return {} if statistic is None else statistic.to_dict()


def _memory(runs: Iterable[ScoredRun]) -> dict[str, Any]:
    """Allocated memory by stage over distinct configurations."""
    distinct = {run.configuration: run for run in runs if run.memory_errors}
    errors = [(error, run.run.id) for run in distinct.values() for error in run.memory_errors]
    if not errors:
        return {}
    worst, worst_id = max(errors, key=lambda pair: abs(pair[0]))
    return {
        "configurations": len(distinct),
        "stages": len(errors),
        "mape": fmean(abs(error) for error, _ in errors),
        "worst": worst,
        "worst_id": worst_id,
    }

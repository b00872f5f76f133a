"""A training log as a measured run of the ledger: what ``sim validate --runs`` scores and ``sim calibrate`` fits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sim.interop import TrainingLog
from sim.scenario import Scenario, to_yaml


def measured_run(log: TrainingLog, scenario: Scenario) -> str:
    """A ledger file with one run: ``scenario`` and the medians of ``log`` after warm-up.

    A log of another number of GPUs or another batch is not one of this scenario: ``ValueError``.
    """
    _refuse_other_runs(log, scenario)
    pace = log.pace
    run = {
        "id": re.sub(r"[^a-z0-9.]+", "-", f"{scenario.name} {Path(log.path).stem}".lower()).strip("-"),
        "split": "check",
        "scenario": yaml.safe_load(to_yaml(scenario)),
        "measured": _measured(log),
        "confidence": f"{log.format} log: median of {pace.kept} of {pace.lines} lines",
        "note": _note(log),
    }
    content = {"source": {"title": f"{log.format} log {Path(log.path).name}"}, "runs": [run]}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def _measured(log: TrainingLog) -> dict[str, Any]:
    """Seconds where they were printed, else the rate that was."""
    measured: dict[str, Any] = {}
    if log.pace.seconds is not None:
        measured["step_time_s"] = log.pace.seconds
    elif log.tokens_per_s_per_gpu is not None:
        measured["tokens_per_s_per_gpu"] = log.tokens_per_s_per_gpu
    if (memory := log.peak_memory) is not None:
        measured |= {"peak_memory_bytes": memory.peak_bytes, "memory_kind": memory.kind}
    return measured


def _note(log: TrainingLog) -> str:
    pace = log.pace
    words = [f"{pace.warm_up_lines} lines of warm-up left out"]
    words.append(f"5 to 95 % of the others at {pace.p5:.3f} to {pace.p95:.3f} of the median")
    if pace.stalls:
        words.append(f"{pace.stalls} stalls cost {pace.stalled_share:.1%} of the time")
    return "; ".join([*words, *log.warnings]) + "."


def _refuse_other_runs(log: TrainingLog, scenario: Scenario) -> None:
    for what, said, asked in (
        ("GPUs", log.gpus, scenario.gpus),
        ("sequences per step", log.global_batch, scenario.training.global_batch),
        ("tokens per sequence", log.sequence_length, scenario.training.sequence_length),
    ):
        if said is not None and said != asked:
            raise ValueError(
                f"{log.path}: the log is of {said:,} {what}, the scenario has {asked:,}: give the scenario of this run"
            )
